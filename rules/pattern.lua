-- Patterns over the dataflow of a graph. A pattern says how a value is made, from its result
-- backwards; matching one against a value yields bindings and the nodes it took.
--
-- A graph is {values = {...}, nodes = {...}} with ids that index these lists; a node is
-- {id, name, op, args = {{name, v = id} | {name, vs = {ids}} | {name, c = constant}, ...}, outs = {ids}},
-- args in the order of the op's schema.

local P = {}

-- Leaves. any: a tensor, the same one wherever the name returns. opt: a tensor or nothing.
-- num: a constant number. Anything else stands for itself.
function P.any(name) return { kind = "any", name = name } end
function P.opt(name) return { kind = "opt", name = name } end
function P.num(name) return { kind = "num", name = name } end
function P.wild() return { kind = "wild" } end
-- A value made by `op` from args (schema order; trailing ones left out may be anything).
function P.op(op, args) return { kind = "op", op = op, args = args or {} } end
-- The same where the first two arguments may change places.
function P.comm(op, args) return { kind = "op", op = op, args = args, comm = true } end
function P.alt(list) return { kind = "alt", list = list } end
-- A Tensor[] argument.
function P.list(items) return { kind = "list", items = items } end
-- p, or p seen through ops that change neither order nor values (dtype casts, reshapes).
function P.cast(p) return { kind = "through", p = p, ops = { ["aten.to.dtype"] = true, ["aten._to_copy.default"] = true } } end
function P.shaped(p)
  return { kind = "through", p = p, ops = { ["aten.view.default"] = true, ["aten.reshape.default"] = true,
    ["aten._unsafe_view.default"] = true, ["aten.unsqueeze.default"] = true, ["aten.squeeze.dim"] = true } }
end
-- p, with a function of the bindings that may add to them, or refuse by returning false.
function P.where(p, f) return { kind = "where", p = p, f = f } end
function P.set(p, key, v) return P.where(p, function(b) b[key] = v end) end

local function copy(env)
  local e = { bind = {}, nodes = {} }
  for k, v in pairs(env.bind) do e.bind[k] = v end
  for k, v in pairs(env.nodes) do e.nodes[k] = v end
  return e
end

local match -- (G, pattern, arg, env) -> list of environments

local function same_constant(want, got)
  if type(want) ~= "table" then return want == got end
  if type(got) ~= "table" or #want ~= #got then return false end
  for i = 1, #want do
    if want[i] ~= got[i] then return false end
  end
  return true
end

local function match_args(G, patterns, args, env, i, out)
  if i > #patterns then
    out[#out + 1] = env
    return out
  end
  for _, e in ipairs(match(G, patterns[i], args[i], env)) do match_args(G, patterns, args, e, i + 1, out) end
  return out
end

local function bound(env, name, v)
  if env.bind[name] == v then return { env } end
  if env.bind[name] ~= nil then return {} end
  local e = copy(env)
  e.bind[name] = v
  return { e }
end

local kinds = {}

function kinds.wild(_, _, _, env) return { env } end

function kinds.any(_, p, arg, env)
  if not (arg and arg.v) then return {} end
  return bound(env, p.name, arg.v)
end

function kinds.opt(_, p, arg, env)
  if arg and arg.v then return bound(env, p.name, arg.v) end
  if arg and arg.c ~= nil then return {} end
  return { env }
end

function kinds.num(G, p, arg, env)
  local c = arg and arg.c
  if arg and arg.v then c = G.values[arg.v].scalar end
  if type(c) ~= "number" then return {} end
  return bound(env, p.name, c)
end

function kinds.alt(G, p, arg, env)
  local out = {}
  for _, q in ipairs(p.list) do
    for _, e in ipairs(match(G, q, arg, env)) do out[#out + 1] = e end
  end
  return out
end

function kinds.list(G, p, arg, env)
  if not (arg and arg.vs and #arg.vs == #p.items) then return {} end
  local args = {}
  for i, v in ipairs(arg.vs) do args[i] = { v = v } end
  return match_args(G, p.items, args, env, 1, {})
end

local function maker(G, arg)
  local id = arg and arg.v and G.values[arg.v].node
  return id and G.nodes[id]
end

function kinds.through(G, p, arg, env)
  local out = match(G, p.p, arg, env)
  local node = maker(G, arg)
  if node and p.ops[node.op] then
    local e = copy(env)
    e.nodes[node.id] = true
    for _, r in ipairs(match(G, p, node.args[1], e)) do out[#out + 1] = r end
  end
  return out
end

function kinds.where(G, p, arg, env)
  local out = {}
  for _, e in ipairs(match(G, p.p, arg, env)) do
    e = copy(e)
    if p.f(e.bind, G, arg and arg.v) ~= false then out[#out + 1] = e end
  end
  return out
end

function kinds.op(G, p, arg, env)
  local node = maker(G, arg)
  if not node or node.op ~= p.op or node.outs[1] ~= arg.v then return {} end
  local e = copy(env)
  e.nodes[node.id] = true
  local out = match_args(G, p.args, node.args, e, 1, {})
  if p.comm then
    local swapped = { node.args[2], node.args[1], table.unpack(node.args, 3) }
    match_args(G, p.args, swapped, e, 1, out)
  end
  return out
end

match = function(G, p, arg, env)
  if type(p) == "table" and p.kind then return kinds[p.kind](G, p, arg, env) end
  local c = arg and arg.c
  if c == nil and arg and arg.v then c = G.values[arg.v].scalar end
  return same_constant(p, c) and { env } or {}
end

-- All ways in which value v is made as p says: {bind, nodes} each.
function P.match(G, p, v) return match(G, p, { v = v }, { bind = {}, nodes = {} }) end

-- Which values of the node set are seen outside it: read by other nodes, or outputs of the model.
function P.outputs(G, nodes)
  local out = {}
  for id in pairs(nodes) do
    for _, v in ipairs(G.nodes[id].outs) do
      local value = G.values[v]
      local seen = value.output
      for _, user in ipairs(value.users) do seen = seen or not nodes[user] end
      if seen then out[v] = true end
    end
  end
  return out
end

-- No path leaves the set and comes back: what is read of nodes outside must not depend on the set.
function P.convex(G, nodes)
  local first, last = math.maxinteger, 0
  for id in pairs(nodes) do first, last = math.min(first, id), math.max(last, id) end
  local tainted = {}
  for id = first, last do
    local reads_set, reads_taint = false, false
    for _, arg in ipairs(G.nodes[id].args) do
      for _, v in ipairs(arg.vs or { arg.v }) do
        local from = v and v > 0 and G.values[v].node
        reads_set = reads_set or (from and nodes[from] or false)
        reads_taint = reads_taint or (from and tainted[from] or false)
      end
    end
    if nodes[id] then
      if reads_taint then return false end
    elseif reads_set or reads_taint then
      tainted[id] = true
    end
  end
  return true
end

return P
