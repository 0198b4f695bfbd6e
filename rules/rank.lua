-- What is worth doing: Amdahl's law with reachable headroom. plan() covers the graph by groups and
-- orders their specs by what they can still give the whole model; next() says which of them the
-- next experiments should go to, and when to stop.

-- How much of the way from the opponent's time to the floor a search has been seen to go. Only
-- the order of the work depends on it; what is kept depends on measurement alone.
local reach = {
  matmul = { part = 0.15, why = "a vendor library leaves little at large shapes" },
  fused_mlp = { part = 0.25, why = "matmuls, less the traffic between them" },
  flash_attention = { part = 0.5, why = "the scores need not go through memory" },
  other = { part = 0.6, why = "row kernels come near to memory bandwidth" },
}

-- An experiment on a spec pays until this many rounds in a row brought nothing.
local patience = { rounds = 6, why = "a round is a batch; six barren ones have tried every tier's neighbours" }

-- A spec that is this near to its floor is done.
local near = { ratio = 1.05, why = "under 5% above the floor is within what the floor itself is known to" }

local function expected(type_, time, floor)
  local r = reach[type_] or reach.other
  if time <= floor then return time end
  return time - r.part * (time - floor)
end

---- the cover --------------------------------------------------------------------------------

-- The heaviest disjoint subset of groups that touch each other: exactly for a few, greedily for many.
local function pick(list)
  local few = 14 -- 2^14 subsets at most
  table.sort(list, function(a, b)
    if a.saving ~= b.saving then return a.saving > b.saving end
    if #a.nodes ~= #b.nodes then return #a.nodes > #b.nodes end
    return a.index < b.index
  end)
  local best, best_saving, taken = {}, 0, {}
  local function free(g)
    for _, n in ipairs(g.nodes) do
      if taken[n] then return false end
    end
    return true
  end
  local function mark(g, v)
    for _, n in ipairs(g.nodes) do taken[n] = v end
  end
  local function search(i, chosen, saving)
    if saving > best_saving then best, best_saving = { table.unpack(chosen) }, saving end
    if i > #list then return end
    local g = list[i]
    if free(g) then
      mark(g, true)
      chosen[#chosen + 1] = g
      search(i + 1, chosen, saving + g.saving)
      chosen[#chosen] = nil
      mark(g, nil)
      if #list > few then return end
    end
    search(i + 1, chosen, saving)
  end
  search(1, {}, 0)
  return best
end

local function cover(groups)
  local component, members = {}, {}
  for i, g in ipairs(groups) do
    g.index = i
    local at
    for _, n in ipairs(g.nodes) do
      local other = component[n]
      if other and not at then at = other end
      if other and other ~= at then
        for _, m in ipairs(members[other]) do
          table.insert(members[at], m)
          for _, k in ipairs(m.nodes) do component[k] = at end
        end
        members[other] = nil
      end
    end
    at = at or i
    members[at] = members[at] or {}
    table.insert(members[at], g)
    for _, n in ipairs(g.nodes) do component[n] = at end
  end
  local chosen = {}
  for _, list in pairs(members) do
    for _, g in ipairs(pick(list)) do chosen[#chosen + 1] = g end
  end
  table.sort(chosen, function(a, b) return a.index < b.index end)
  return chosen
end

---- specs ------------------------------------------------------------------------------------

local function text(v)
  if type(v) ~= "table" then return tostring(v) end
  local parts = {}
  for k, x in pairs(v) do parts[#parts + 1] = tostring(k) .. "=" .. text(x) end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

-- What makes two groups one spec: all but the names of nodes and values.
local function identity(g)
  local args = {}
  for i, a in ipairs(g.args) do
    args[i] = { name = a.name, role = a.role, dtype = a.dtype, shape = a.shape, stride = a.stride }
  end
  return text { type = g.type, dims = g.dims, dtype = g.dtype, attrs = g.attrs, args = args }
end

local function short_hash(s) -- FNV-1a, 32 bits
  local h = 0x811c9dc5
  for i = 1, #s do h = ((h ~ s:byte(i)) * 0x01000193) & 0xffffffff end
  return ("%04x"):format(h & 0xffff)
end

local function base_name(g, order)
  local parts = { (g.type:gsub("_", "-")) }
  for _, d in ipairs(order) do parts[#parts + 1] = d .. g.dims[d] end
  parts[#parts + 1] = g.dtype
  return table.concat(parts, "-")
end

local M = {}

-- {nodes, groups} of a profile -> {model_us, specs}, the specs in order of gain.
function M.plan(profile)
  local K = require "kernels"
  local node_us, left, total = {}, 0, 0
  for _, n in ipairs(profile.nodes) do
    node_us[n.node] = n.time_us
    total = total + n.time_us
  end
  for _, g in ipairs(profile.groups) do
    g.expected = expected(g.type, g.time_us, g.floor_us)
    g.saving = g.nodes_us - g.expected + 1e-6 * g.nodes_us -- what has nothing to give is part of the cover, too
  end
  local chosen, covered, specs, by_id, names = cover(profile.groups), {}, {}, {}, {}
  for _, g in ipairs(chosen) do
    for _, n in ipairs(g.nodes) do covered[n] = true end
    local id = identity(g)
    local s = by_id[id]
    if not s then
      s = { type = g.type, dims = g.dims, dtype = g.dtype, attrs = g.attrs, calls = 0, groups = {}, time_us = g.time_us,
            floor_us = g.floor_us, expected_us = g.expected, bound = g.bound, base = base_name(g, K.dims[g.type]), id = id }
      by_id[id] = s
      specs[#specs + 1] = s
      names[s.base] = (names[s.base] or 0) + 1
    end
    s.calls = s.calls + 1
    s.groups[#s.groups + 1] = { type = g.type, nodes = g.nodes, args = g.args, attrs = g.attrs, why = g.why }
  end
  for _, n in ipairs(profile.nodes) do
    if not covered[n.node] then left = left + n.time_us end
  end
  local model = left
  for _, s in ipairs(specs) do model = model + s.calls * s.time_us end
  for _, s in ipairs(specs) do
    s.spec = names[s.base] > 1 and s.base .. "-" .. short_hash(s.id) or s.base
    s.share = model > 0 and s.calls * s.time_us / model or 0
    s.headroom = s.time_us / s.floor_us
    s.gain_us = s.calls * (s.time_us - s.expected_us)
    s.amdahl = model > 0 and model / (model - s.gain_us) or 1
    s.why = ("%.1f%% of the model in %d calls, %.2fx above its floor (%s): %.1f us a run may be had"):format(
      100 * s.share, s.calls, s.headroom, s.bound, s.gain_us)
    s.base, s.id = nil, nil
  end
  table.sort(specs, function(a, b)
    if a.gain_us ~= b.gain_us then return a.gain_us > b.gain_us end
    return a.spec < b.spec
  end)
  return { model_us = model, nodes_us = total, uncovered_us = left, specs = array(specs) }
end

-- {specs = {{spec, type, calls, time_us, floor_us, speedup, trials, barren_rounds, spent_s, exhausted, fresh}, ...}, top,
-- spent_s, budget_s} -> {spec, why}, or {why} when the search is over. `speedup` is the incumbent's over the opponent;
-- a spec is fresh when its ranges or the strategy were edited and nothing was tried since: it has one round whatever
-- was spent, and spent_s is counted from there.
function M.next(state)
  local best, tried, over = nil, 0, state.spent_s >= state.budget_s
  for i, s in ipairs(state.specs) do
    if i > state.top then break end
    local now = s.time_us / (s.speedup or 1)
    local done = s.exhausted and "nothing left to try"
      or (s.barren_rounds or 0) >= patience.rounds and "no gain in the last rounds"
      or s.trials > 1 and now <= near.ratio * s.floor_us and "at its floor"
    tried = tried + 1
    if not done and (s.fresh or not over) then
      -- what is left to gain, less where rounds came back empty
      local gain = s.calls * (now - expected(s.type, now, s.floor_us)) / (1 + (s.barren_rounds or 0))
      if s.trials == 0 or s.fresh then gain = gain + 1e9 / i end -- every spec is measured once before any is searched
      if not best or gain > best.gain then best = { spec = s.spec, gain = gain, s = s, now = now } end
    end
  end
  if over and not best then return { why = ("the budget of %g s is spent"):format(state.budget_s) } end
  if tried == 0 then return { why = "no kernel type of ours fits this model" } end
  if not best then return { why = ("all %d kernels are done"):format(tried) } end
  local s = best.s
  local why = s.trials == 0 and "not measured yet"
    or ("%d calls of %.1f us, floor %.1f us; %d trials, %d rounds since the last gain"):format(
      s.calls, best.now, s.floor_us, s.trials, s.barren_rounds or 0)
  return { spec = best.spec, why = why }
end

return M
