-- The value of a constraint: arithmetic, comparison and logic over knobs, in Lua's own syntax.
--     expr.eval("MC % MR == 0 and MR * NR <= 96", {MC = 96, MR = 6, NR = 16}) -> true

local levels = { -- binary operators, loosest first
  { "or" }, { "and" }, { "<=", ">=", "==", "~=", "<", ">" }, { "+", "-" }, { "*", "//", "/", "%" },
}

local apply = {
  ["or"] = function(a, b) return a or b end, ["and"] = function(a, b) return a and b end,
  ["<="] = function(a, b) return a <= b end, [">="] = function(a, b) return a >= b end,
  ["<"] = function(a, b) return a < b end, [">"] = function(a, b) return a > b end,
  ["=="] = function(a, b) return a == b end, ["~="] = function(a, b) return a ~= b end,
  ["+"] = function(a, b) return a + b end, ["-"] = function(a, b) return a - b end,
  ["*"] = function(a, b) return a * b end, ["/"] = function(a, b) return a / b end,
  ["//"] = function(a, b) return a // b end, ["%"] = function(a, b) return a % b end,
}

local function tokens(text)
  local out, at = {}, 1
  while true do
    at = text:find("%S", at)
    if not at then return out end
    local s, e = text:find("^[%a_][%w_]*", at)
    if not s then s, e = text:find("^%d+%.?%d*", at) end
    if not s then
      for _, op in ipairs { "<=", ">=", "==", "~=", "//" } do
        if text:sub(at, at + 1) == op then s, e = at, at + 1 end
      end
    end
    if not s then s, e = text:find("^[-+*/%%<>()]", at) end
    if not s then error(("constraint '%s': cannot read from '%s'"):format(text, text:sub(at)), 0) end
    out[#out + 1] = text:sub(s, e)
    at = e + 1
  end
end

local M = {}

function M.eval(text, env)
  local list, i = tokens(text), 1
  local parse

  local function fail(what) error(("constraint '%s': %s"):format(text, what), 0) end

  local function unary()
    local t = list[i]
    i = i + 1
    if t == nil then fail("ends too soon") end
    if t == "(" then
      local v = parse(1)
      if list[i] ~= ")" then fail("wants a ')'") end
      i = i + 1
      return v
    end
    if t == "-" then return -unary() end
    if t == "not" then return not unary() end
    if t == "true" or t == "false" then return t == "true" end
    if t:find("^%d") then return math.tointeger(tonumber(t)) or tonumber(t) end
    if env[t] == nil then fail("there is no knob '" .. t .. "'") end
    return env[t]
  end

  local function is(op, level)
    for _, o in ipairs(levels[level]) do
      if o == op then return true end
    end
    return false
  end

  parse = function(level)
    if level > #levels then return unary() end
    local v = parse(level + 1)
    while list[i] and is(list[i], level) do
      local op = list[i]
      i = i + 1
      local w = parse(level + 1)
      if (op == "%" or op == "//") and w == 0 then fail("divides by zero") end
      v = apply[op](v, w)
    end
    return v
  end

  local v = parse(1)
  if list[i] then fail("has '" .. list[i] .. "' left over") end
  return v
end

return M
