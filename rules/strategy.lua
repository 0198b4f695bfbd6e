-- The six tiers: which knobs to turn, in which order, and how far. propose() is a pure function of
-- what has been tried, so that a search stopped anywhere goes on as if it had not been.

local expr = require "expr"

-- Tiers by number; `bound` says which roofline verdict brings a tier forward.
local tiers = {
  { name = "block sizes", why = "what fits which cache decides most", bound = "compute" },
  { name = "memory access", why = "prefetch, streaming stores, packing", bound = "memory" },
  { name = "compute", why = "vector width, unrolling, accumulators", bound = "compute" },
  { name = "advanced", why = "splits, scheduling, how work meets threads" },
  { name = "architecture", why = "what only this machine likes" },
  { name = "kernel-specific", why = "choices of one algorithm" },
}

local pairs_a_tier = 24      -- random settings of a tier's knobs together, once its single steps are tried
local mutations = { 2, 3 }   -- knobs changed at once in the last phase
local mutated_rounds = 12    -- rounds of that phase
local parents = 4            -- it mutates the best few

local M = { tiers = tiers }

local function allowed(state, values)
  for _, c in ipairs(state.constraints) do
    if not expr.eval(c, values) then return false end
  end
  return true
end

local function key(state, values)
  local parts = {}
  for _, k in ipairs(state.knobs) do parts[#parts + 1] = k.name .. "=" .. tostring(values[k.name]) end
  return table.concat(parts, " ")
end

local function with(values, changes)
  local v = {}
  for name, x in pairs(values) do v[name] = x end
  for name, x in pairs(changes) do v[name] = x end
  return v
end

-- The order of tiers for this spec: those that its bound calls for first.
local function order(state)
  local first, rest = {}, {}
  for t, tier in ipairs(tiers) do
    local list = tier.bound == state.bound and first or rest
    list[#list + 1] = t
  end
  return table.move(rest, 1, #rest, #first + 1, first)
end

local function of_tier(state, t)
  local list = {}
  for _, k in ipairs(state.knobs) do
    if k.tier == t and #k.values > 1 then list[#list + 1] = k end
  end
  return list
end

-- Every value of every knob of a tier, the rest as the incumbent has it; nearest values first.
local function single_steps(state, t, add)
  for _, k in ipairs(of_tier(state, t)) do
    local at = 1
    for i, v in ipairs(k.values) do
      if v == state.values[k.name] then at = i end
    end
    for distance = 1, #k.values do
      for _, i in ipairs { at + distance, at - distance } do
        if k.values[i] ~= nil then
          add(with(state.values, { [k.name] = k.values[i] }), ("%s: %s %s to %s"):format(tiers[t].name, k.name, tostring(state.values[k.name]),
            tostring(k.values[i])))
        end
      end
    end
  end
end

local function pick(list) return list[math.random(#list)] end

-- Several knobs of one tier at once: what single steps cannot see, such as a tile's two sides.
local function combinations(state, t, add)
  local knobs = of_tier(state, t)
  if #knobs < 2 then return end
  for _ = 1, pairs_a_tier do
    local changes, said = {}, {}
    for _, k in ipairs(knobs) do
      if math.random() < math.max(0.5, 2 / #knobs) then changes[k.name] = pick(k.values) end
    end
    for name, v in pairs(changes) do said[#said + 1] = name .. "=" .. tostring(v) end
    add(with(state.values, changes), tiers[t].name .. ", together: " .. table.concat(said, " "))
  end
end

-- A few knobs of any tier changed in one of the best settings so far.
local function mutate(state, add)
  local good = {}
  for _, h in ipairs(state.history) do
    if h.speedup then good[#good + 1] = h end
  end
  table.sort(good, function(a, b)
    if a.speedup ~= b.speedup then return a.speedup > b.speedup end
    return key(state, a.values) < key(state, b.values)
  end)
  for _ = 1, 4 * state.batch do
    local parent = good[math.random(math.max(1, math.min(parents, #good)))]
    local values, changes, said = parent and parent.values or state.values, {}, {}
    for _ = 1, pick(mutations) do
      local k = pick(state.knobs)
      changes[k.name] = pick(k.values)
    end
    for name, v in pairs(changes) do said[#said + 1] = name .. "=" .. tostring(v) end
    add(with(values, changes), "mutation: " .. table.concat(said, " "))
  end
end

-- {knobs = {{name, tier, value, values}}, constraints, values (the incumbent's), history = {{values, verdict, speedup}},
-- bound, batch} -> {candidates = {{values, why}}, phase, tier}; no candidates: nothing is left to try.
function M.propose(state)
  local tried, out = { [key(state, state.values)] = true }, {}
  for _, h in ipairs(state.history) do tried[key(state, h.values)] = true end
  local function add(values, why)
    local k = key(state, values)
    if tried[k] or #out >= state.batch or not allowed(state, values) then return end
    tried[k] = true
    out[#out + 1] = { values = values, why = why }
  end
  local function answer(phase, t)
    return { candidates = array(out), phase = phase, tier = t }
  end
  if #state.knobs == 0 then return answer("none") end

  for _, t in ipairs(order(state)) do
    single_steps(state, t, add)
    if #out > 0 then return answer("single steps", t) end
  end
  for _, t in ipairs(order(state)) do
    combinations(state, t, add)
    if #out > 0 and #out >= state.batch // 2 then return answer("combinations", t) end
  end
  if (state.mutated_rounds or 0) < mutated_rounds then
    mutate(state, add)
    return answer("mutations")
  end
  return answer(#out > 0 and "combinations" or "none")
end

return M
