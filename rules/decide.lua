-- Keep or revert: how much better, how sure. A pure replay of the rounds: facts come in, decisions
-- go out, so that an edit here re-decides a whole search in a second.

-- A candidate must be this much faster than the incumbent, by the low end of its interval, in two
-- processes on different data.
local margin = { ratio = 1.01, why = "the same kernel under two names was seen to differ by up to 1% in one process and not twice" }

local M = {}

local function interval(facts, name)
  local v = facts[name]
  return v and v.speedup and v or nil
end

-- How much faster a is than b by their intervals against the same opponent, cautiously.
local function through_opponent(a, b)
  local x, y = interval(a, "vs_opponent"), interval(b, "vs_opponent")
  if not (x and y) then return nil end
  return { speedup = x.speedup / y.speedup, low = x.low / y.high, high = x.high / y.low }
end

-- The candidate against the incumbent that the replay has now.
local function against(facts, incumbent)
  local measured = interval(facts, "vs_incumbent")
  if measured and measured.hash == incumbent.hash then
    local again = facts.again and interval(facts.again, "vs_incumbent")
    return measured, again or { speedup = measured.speedup, low = 0, high = measured.high, missing = true }
  end
  local v = through_opponent(facts, incumbent)
  return v, v
end

local refused = {
  wrong = "gives a wrong answer", crash = "crashed", hang = "did not end in its time", compile_fail = "does not compile",
  unsupported = "does not do the spec's own shape", load_fail = "does not load", clock_mismatch = "two clocks disagree on its time",
  refused = "was refused",
}

-- One trial against the incumbent: {decision, why, speedup}.
local function judge(facts, incumbent)
  if facts.verdict ~= "pass" then
    local why = refused[facts.verdict] or ("ended as " .. tostring(facts.verdict))
    return { decision = facts.verdict, why = facts.why and facts.why ~= "" and facts.why or why }
  end
  if not incumbent then return { decision = "start", why = "the kernel that the search begins from", speedup = 1 } end
  local first, again = against(facts, incumbent)
  if not first then return { decision = "revert", why = "nothing to compare it with" } end
  local d = { speedup = first.speedup }
  if first.low >= margin.ratio and again.low >= margin.ratio then
    d.decision, d.why = "keep", ("%.3fx faster, at least %.3fx, and again on new data"):format(first.speedup, math.min(first.low, again.low))
  elseif first.low >= margin.ratio then
    d.decision = "revert"
    d.why = again.missing and "faster once, not measured twice" or ("%.3fx at first, %.3fx the second time"):format(first.speedup, again.speedup)
  elseif first.speedup > 1 then
    d.decision, d.why = "revert", ("%.3fx, but perhaps only %.3fx: not sure enough"):format(first.speedup, first.low)
  else
    d.decision, d.why = "revert", ("%.3fx: no faster"):format(first.speedup)
  end
  return d
end

-- {rounds = {{incumbent, trials = {facts, ...}}, ...}} -> {incumbent = hash, decisions = {[hash] = {decision, why, speedup}}}
function M.spec(history)
  local decisions, incumbent = {}, nil
  for _, round in ipairs(history.rounds) do
    local best
    for _, facts in ipairs(round.trials) do
      local d = judge(facts, incumbent)
      decisions[facts.hash] = d
      if (d.decision == "keep" or d.decision == "start") and (not best or d.speedup > decisions[best.hash].speedup) then
        if best then
          decisions[best.hash].decision, decisions[best.hash].why = "revert", "faster, but another of its round is faster still"
        end
        best = facts
      elseif d.decision == "keep" or d.decision == "start" then
        d.decision, d.why = "revert", "faster, but another of its round is faster still"
      end
    end
    incumbent = best or incumbent
  end
  return { incumbent = incumbent and incumbent.hash, decisions = decisions }
end

return M
