-- Which nodes could form which group. Every pattern proposes; groups may overlap, and rank.lua
-- chooses among them by measured time. A node that one kernel can do alone comes with `lowered`,
-- the kernel call that does it.

local P = require "pattern"
local K = require "kernels"
local any, opt, num, wild, op, comm, alt, cast, shaped, where, set =
  P.any, P.opt, P.num, P.wild, P.op, P.comm, P.alt, P.cast, P.shaped, P.where, P.set

---- views ----------------------------------------------------------------------------------

local function view(v, shape, stride)
  return { value = v.name, dtype = v.dtype, shape = array(shape), stride = array(stride), offset = v.offset }
end

local function whole(v) return view(v, v.shape, v.stride) end

-- [*, C] as [R, C]; nil where the leading dims do not merge without a copy.
local function rows(v)
  local n = #v.shape
  if n == 0 then return nil end
  local count, step
  for i = n - 1, 1, -1 do
    if v.shape[i] ~= 1 then
      if not count then
        count, step = v.shape[i], v.stride[i]
      elseif v.stride[i] == count * step then
        count = count * v.shape[i]
      else
        return nil
      end
    end
  end
  return view(v, { count or 1, v.shape[n] }, { step or v.shape[n], v.stride[n] })
end

-- A linear's weight [out, in] seen as [in, out], or one that is stored so.
local function weight(v, layout)
  if layout == "in_out" then return whole(v) end
  return view(v, { v.shape[2], v.shape[1] }, { v.stride[2], v.stride[1] })
end

local function expand(v, shape)
  local stride, lead = {}, #shape - #v.shape
  for i = 1, #shape do
    local have = i > lead and v.shape[i - lead] or 1
    if have ~= 1 and have ~= shape[i] then return nil end
    stride[i] = i > lead and have ~= 1 and v.stride[i - lead] or 0
  end
  return stride
end

---- pieces of patterns ---------------------------------------------------------------------

-- x @ w + b as linear or addmm; binds NAME_w, NAME_b, NAME_layout.
local function affine(name, x)
  return alt {
    set(op("aten.linear.default", { x, any(name .. "_w"), opt(name .. "_b") }), name .. "_layout", "out_in"),
    set(op("aten.addmm.default", { any(name .. "_b"), x, any(name .. "_w"), 1, 1 }), name .. "_layout", "in_out"),
  }
end

-- 0.5 v (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3))), as models write it out
local function gelu_tanh_chain(v)
  local x = any("pre")
  local inner = comm("aten.add.Tensor", { x, comm("aten.mul.Tensor", { op("aten.pow.Tensor_Scalar", { x, 3 }), num("gelu_c") }) })
  local t = op("aten.tanh.default", { comm("aten.mul.Tensor", { inner, num("gelu_s") }) })
  local p = comm("aten.mul.Tensor", { comm("aten.mul.Tensor", { x, 0.5 }), comm("aten.add.Tensor", { t, 1 }) })
  return where(p, function(b, G)
    if math.abs(b.gelu_c - 0.044715) > 1e-6 or math.abs(b.gelu_s - 0.7978845608) > 1e-6 then return false end
    local inside = P.match(G, v, b.pre)
    if not inside[1] then return false end
    for k, value in pairs(inside[1].bind) do
      if b[k] ~= nil and b[k] ~= value then return false end
      b[k] = value
    end
    b.extra_nodes = inside[1].nodes
    b.activation = "gelu_tanh"
  end)
end

local function activation(v)
  return alt {
    set(op("aten.silu.default", { v }), "activation", "silu"),
    set(op("aten.relu.default", { v }), "activation", "relu"),
    set(op("aten.gelu.default", { v, "none" }), "activation", "gelu"),
    set(op("aten.gelu.default", { v, "tanh" }), "activation", "gelu_tanh"),
    gelu_tanh_chain(v),
  }
end

local function times(a, b) return comm("aten.mul.Tensor", { a, b }) end
local function plus(a, b) return comm("aten.add.Tensor", { a, b, 1 }) end
local function last_mean(x) return op("aten.mean.dim", { x, { -1 }, true }) end

---- the types ------------------------------------------------------------------------------

local function absent(name) return { name = name, role = "absent" } end

local function argument(name, role, v, tensor)
  if not tensor then return nil end
  tensor.name = name
  tensor.role = (role == "input" and v.constant) and "constant" or role
  return tensor
end

local function norm_group(G, b, root, with_bias)
  local x, out = G.values[b.x], G.values[root]
  local C = out.shape[#out.shape]
  local args = { argument("x", "input", x, rows(x)) or false, absent("residual") }
  for _, name in ipairs(with_bias and { "weight", "bias" } or { "weight" }) do
    local v = b[name] and G.values[b[name]]
    if v and not (#v.shape == 1 and v.shape[1] == C) then return nil end
    args[#args + 1] = v and argument(name, "input", v, whole(v)) or absent(name)
  end
  args[#args + 1] = argument("out", "output", out, rows(out)) or false
  args[#args + 1] = absent("sum")
  return { args = args, attrs = { eps = { real = b.eps } } }
end

local function rms(x)
  local root = alt {
    op("aten.rsqrt.default", { plus(last_mean(op("aten.pow.Tensor_Scalar", { x, 2 })), num("eps")) }),
    op("aten.rsqrt.default", { plus(last_mean(op("aten.mul.Tensor", { x, x })), num("eps")) }),
  }
  return times(x, root)
end

local centred = op("aten.sub.Tensor", { any("x"), last_mean(any("x")), 1 })
local function variance(d) return plus(last_mean(alt { op("aten.pow.Tensor_Scalar", { d, 2 }), op("aten.mul.Tensor", { d, d }) }), num("eps")) end
local standardised = alt {
  times(centred, op("aten.rsqrt.default", { variance(centred) })),
  op("aten.div.Tensor", { centred, op("aten.sqrt.default", { variance(centred) }) }),
}

local function minus_half(x, from, to) return op("aten.slice.Tensor", { x, wild(), from, to, 1 }) end

-- x cos + rotate_half(x) sin; the two slices must be the halves of the last dim
local rope = where(plus(times(any("x"), any("cos")), times(op("aten.cat.default", {
    P.list { op("aten.neg.default", { minus_half(any("x"), num("mid"), wild()) }), minus_half(any("x"), 0, num("mid")) }, wild() }),
  any("sin"))), function(b, G)
    local x = G.values[b.x]
    return #x.shape == 4 and b.mid * 2 == x.shape[4]
  end)

local scores = function(q, k)
  local kt = alt { op("aten.transpose.int", { k, -2, -1 }), op("aten.transpose.int", { k, -1, -2 }), op("aten.transpose.int", { k, 2, 3 }),
    op("aten.permute.default", { k, { 0, 1, 3, 2 } }) }
  local qk = op("aten.matmul.default", { q, kt })
  return alt { set(qk, "scale", 1.0), times(qk, num("scale")),
    where(op("aten.div.Tensor", { qk, num("divisor") }), function(b) b.scale = 1 / b.divisor end) }
end
local attention_chain = op("aten.matmul.default", {
  op("aten.softmax.int", { alt { scores(any("q"), any("k")), plus(scores(any("q"), any("k")), any("mask")) }, -1 }), any("v") })

local exps = op("aten.exp.default", { op("aten.sub.Tensor", { any("x"), op("aten.amax.default", { any("x"), { -1 }, true }), 1 }) })

local log_probs = alt { op("aten.log_softmax.int", { any("logits"), 1 }), op("aten.log_softmax.int", { any("logits"), -1 }) }

-- Each: type, a `why`, the pattern of its result, and build(G, bindings, result) -> {args, attrs} or nil.
local patterns = {
  {
    type = "rmsnorm", why = "RMSNorm written out: pow, mean, add, rsqrt, mul, mul, with casts between",
    pattern = alt { times(any("weight"), cast(rms(any("x")))), cast(rms(any("x"))) },
    build = function(G, b, root) return norm_group(G, b, root, false) end,
  },
  {
    type = "layernorm", why = "LayerNorm written out",
    pattern = alt { plus(times(standardised, any("weight")), any("bias")), times(standardised, any("weight")), standardised },
    build = function(G, b, root) return norm_group(G, b, root, true) end,
  },
  {
    type = "softmax", why = "softmax written out: amax, sub, exp, sum, div",
    pattern = op("aten.div.Tensor", { exps, op("aten.sum.dim_IntList", { exps, { -1 }, true }) }),
    build = function(G, b, root)
      local x, out = G.values[b.x], G.values[root]
      return { args = { argument("x", "input", x, rows(x)) or false, argument("out", "output", out, rows(out)) or false },
               attrs = { log = { bool = false } } }
    end,
  },
  {
    type = "fused_mlp", why = "up, activation, down; or gate, activation, times up, down",
    pattern = alt {
      affine("down", shaped(times(activation(shaped(affine("gate", any("x")))), shaped(affine("up", any("x")))))),
      affine("down", shaped(activation(shaped(affine("gate", any("x")))))),
    },
    build = function(G, b, root)
      local x, out = G.values[b.x], G.values[root]
      local args = { argument("x", "input", x, rows(x)) or false }
      local function add(name, value, tensor)
        args[#args + 1] = value and argument(name, "input", value, tensor) or absent(name)
      end
      for _, name in ipairs { "gate", "up", "down" } do
        local w = b[name .. "_w"] and G.values[b[name .. "_w"]]
        add(name .. "_w", w, w and weight(w, b[name .. "_layout"]))
      end
      for _, name in ipairs { "gate", "up", "down" } do
        local v = b[name .. "_b"] and G.values[b[name .. "_b"]]
        if v and #v.shape ~= 1 then return nil end
        add(name .. "_bias", v, v and whole(v))
      end
      args[#args + 1] = argument("out", "output", out, rows(out)) or false
      return { args = args, attrs = { activation = { enum = b.activation } } }
    end,
  },
  {
    type = "flash_attention", why = "attention written out: matmul, scale, mask, softmax, matmul",
    pattern = attention_chain,
    build = function(G, b, root)
      local q, k, v, out = G.values[b.q], G.values[b.k], G.values[b.v], G.values[root]
      local mask = b.mask and G.values[b.mask]
      if #q.shape ~= 4 or q.shape[2] % k.shape[2] ~= 0 then return nil end
      local args = { argument("q", "input", q, whole(q)), argument("k", "input", k, whole(k)), argument("v", "input", v, whole(v)) }
      if mask then
        local full = { q.shape[1], q.shape[2], q.shape[3], k.shape[3] }
        local stride = expand(mask, full)
        if not stride then return nil end
        args[4] = argument("mask", "input", mask, view(mask, full, stride))
        args[4].draw = "mask"
      else
        args[4] = absent("mask")
      end
      args[5] = argument("out", "output", out, whole(out))
      return { args = args, attrs = { scale = { real = b.scale }, causal = { bool = false } } }
    end,
  },
  {
    type = "cross_entropy", why = "negative log likelihood of a log-softmax",
    pattern = op("aten.nll_loss_nd.default", { log_probs, any("target"), nil, num("reduction"), num("ignore") }),
    build = function(G, b, root)
      local logits, target, out = G.values[b.logits], G.values[b.target], G.values[root]
      if #logits.shape ~= 2 then return nil end
      local reduction = ({ [0] = "none", [1] = "mean", [2] = "sum" })[b.reduction]
      return { args = { argument("logits", "input", logits, whole(logits)), argument("target", "input", target, whole(target)),
                        argument("loss", "output", out, whole(out)) },
               attrs = { reduction = { enum = reduction }, ignore_index = { int = b.ignore }, label_smoothing = { real = 0 } } }
    end,
  },
  {
    type = "rotary_embedding", why = "rotate_half form of RoPE: slice, neg, cat, mul, mul, add",
    pattern = rope,
    build = function(G, b, root)
      local x, out = G.values[b.x], G.values[root]
      local cos, sin = G.values[b.cos], G.values[b.sin]
      local table_shape = { cos.shape[#cos.shape - 3] or 1, cos.shape[#cos.shape - 2] or 1, x.shape[3], x.shape[4] }
      local cs, ss = expand(cos, table_shape), expand(sin, table_shape)
      if not (cs and ss) then return nil end
      return { args = { argument("x", "input", x, whole(x)), absent("y"),
                        argument("cos", "input", cos, view(cos, table_shape, cs)), argument("sin", "input", sin, view(sin, table_shape, ss)),
                        argument("out", "output", out, whole(out)), absent("out2") },
               attrs = { interleaved = { bool = false } }, pair = b.cos .. "," .. b.sin }
    end,
  },
}

---- groups ---------------------------------------------------------------------------------

local function by_name(args)
  local t = {}
  for _, a in ipairs(args) do t[a.name] = a end
  return t
end

-- A group from its nodes and kernel call, or nil where it would hide a value that others read.
local function group(G, type_, nodes, call, why)
  for i = 1, #call.args do
    if not call.args[i] then return nil end
  end
  local written = {}
  for _, a in ipairs(call.args) do
    if a.role == "output" then written[a.value] = true end
  end
  for v in pairs(P.outputs(G, nodes)) do
    if not written[G.values[v].name] then return nil end
  end
  if not P.convex(G, nodes) then return nil end
  local names, ids = {}, {}
  for id in pairs(nodes) do ids[#ids + 1] = id end
  table.sort(ids)
  for i, id in ipairs(ids) do names[i] = G.nodes[id].name end
  local out = { type = type_, nodes = array(names), args = array(call.args), attrs = call.attrs, why = why, at = ids[1] }
  out.dims = K.dims_of(type_, call.args, call.attrs)
  for _, a in ipairs(call.args) do
    if a.role == "output" then out.dtype = a.dtype end
  end
  if out.dims and type_ == "cross_entropy" then
    local t = by_name(call.args)
    out.dtype = t.logits.dtype
  end
  return out.dims and out or nil, nodes
end

-- A cast that only the group reads belongs to it.
local function absorb_cast(G, b, nodes)
  local made = b.x and G.values[b.x].node
  local node = made and G.nodes[made]
  if not node or not (node.op == "aten.to.dtype" or node.op == "aten._to_copy.default") then return end
  for _, user in ipairs(G.values[b.x].users) do
    if not nodes[user] then return end
  end
  if G.values[b.x].output or not node.args[1].v then return end
  nodes[node.id] = true
  b.x = node.args[1].v
end

-- The same norm with the residual add before it, whose sum is an output too where others read it.
local function with_residual(G, g, nodes)
  local args = by_name(g.args)
  local x = args.x and G.value_named[args.x.value]
  local add = x and x.node and G.nodes[x.node]
  if not add or add.op ~= "aten.add.Tensor" then return nil end
  local a, b = add.args[1].v and G.values[add.args[1].v], add.args[2].v and G.values[add.args[2].v]
  if not (a and b) or (add.args[3] and add.args[3].c ~= nil and add.args[3].c ~= 1) then return nil end
  if a.dtype ~= x.dtype or b.dtype ~= x.dtype or #a.shape ~= #x.shape or #b.shape ~= #x.shape then return nil end
  for i = 1, #x.shape do
    if a.shape[i] ~= x.shape[i] or b.shape[i] ~= x.shape[i] then return nil end
  end
  local more = {}
  for id in pairs(nodes) do more[id] = true end
  more[add.id] = true
  local call = { args = {}, attrs = g.attrs }
  for i, arg in ipairs(g.args) do
    if arg.name == "x" then arg = argument("x", "input", a, rows(a)) or false
    elseif arg.name == "residual" then arg = argument("residual", "input", b, rows(b)) or false
    elseif arg.name == "sum" and P.outputs(G, more)[x.id] then arg = argument("sum", "output", x, rows(x)) or false end
    call.args[i] = arg
  end
  return group(G, g.type, more, call, "the norm with the residual add before it")
end

-- Queries and keys rotated by the same tables in one call.
local function paired_rope(G, p, q)
  local nodes = {}
  for _, r in ipairs { p, q } do
    for id in pairs(r.nodes) do nodes[id] = true end
  end
  local a, b = by_name(p.group.args), by_name(q.group.args)
  local function renamed(arg, name)
    local t = {}
    for k, v in pairs(arg) do t[k] = v end
    t.name = name
    return t
  end
  return group(G, "rotary_embedding", nodes, { attrs = p.group.attrs,
    args = { a.x, renamed(b.x, "y"), a.cos, a.sin, a.out, renamed(b.out, "out2") } }, "queries and keys together")
end

local M = { patterns = {} }
for _, p in ipairs(patterns) do M.patterns[#M.patterns + 1] = { type = p.type, why = p.why } end

-- {values, nodes} -> the list of groups that the graph could be covered by.
function M.groups(G)
  local out, ropes = {}, {}
  G.value_named = {}
  for _, v in ipairs(G.values) do G.value_named[v.name] = v end

  local function propose(type_, nodes, call, why)
    local g = group(G, type_, nodes, call, why)
    if not g then return nil end
    out[#out + 1] = g
    if type_ == "rmsnorm" or type_ == "layernorm" then out[#out + 1] = with_residual(G, g, nodes) end
    return g
  end

  for _, node in ipairs(G.nodes) do
    if node.lowered and K.why[node.lowered.type] then
      propose(node.lowered.type, { [node.id] = true }, node.lowered, "one op")
    end
    local root = node.outs[1]
    for _, p in ipairs(root and patterns or {}) do
      for _, hit in ipairs(P.match(G, p.pattern, root)) do
        for id in pairs(hit.bind.extra_nodes or {}) do hit.nodes[id] = true end
        absorb_cast(G, hit.bind, hit.nodes)
        local call = p.build(G, hit.bind, root)
        local g = call and propose(p.type, hit.nodes, call, p.why)
        if g and call.pair then ropes[#ropes + 1] = { group = g, nodes = hit.nodes, pair = call.pair } end
        if g then break end
      end
    end
  end
  for i = 1, #ropes - 1 do
    local p, q = ropes[i], ropes[i + 1]
    if p.pair == q.pair then out[#out + 1] = paired_rope(G, p, q) end
  end
  return array(out)
end

return M
