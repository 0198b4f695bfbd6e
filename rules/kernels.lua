-- The kernel types: what each computes, the arguments of its C face in order, what a call costs,
-- what a check sweeps and how near to truth it must come. A new type is one entry here, one
-- pattern in classify.lua and one starter.
--
-- An argument is {name, role, shape [, dtype, optional, draw, lo, hi]}; its dtype is the spec's
-- unless named. `graph` builds the canonical ATen subgraph, which is truth at every swept shape;
-- at the model's own shape truth is the model's own nodes, or, where `rows` names the dim along which
-- outputs do not depend on each other and a run would take long, `graph` at some of these.

local families = {
  -- every family a check of numerical stability draws; tests/ proves that each is drawn
  "large", "tiny", "mixed", "tail", "shifted", "equal", "zeros", "nonfinite",
}

-- How much worse than one rounding of its inputs a right kernel may be (the judge measures what
-- that rounding does to the outputs, so a factor here is a ratio between kernels, not a size).
local tolerance = {
  factor = 8,
  why = "an honest kernel reorders sums and rounds once or twice an element, which moves an output by a small "
    .. "multiple of what one rounding of every input does; 8 leaves room for blocked sums and a 2 ulp exp, "
    .. "and a skipped element, a zero or a mean is thousands off",
}

local types = {}

local function each(list, names)
  local out = {}
  for _, row in ipairs(list) do
    local d = {}
    for i, name in ipairs(names) do d[name] = row[i] end
    out[#out + 1] = d
  end
  return out
end

types.matmul = {
  why = "out = a @ b + bias: every linear layer",
  dims = { "b", "m", "n", "k" },
  rows = "m",
  args = function(d)
    return {
      { name = "a", role = "input", shape = { d.b, d.m, d.k } },
      { name = "b", role = "constant", shape = { d.b, d.k, d.n } },
      { name = "bias", role = "constant", shape = { d.n }, optional = true },
      { name = "out", role = "output", shape = { d.b, d.m, d.n } },
    }
  end,
  flops = function(d) return 2 * d.b * d.m * d.n * d.k end,
  graph = function(g, x)
    local y = g:op("aten.matmul", { x.a, x.b })
    return x.bias and g:op("aten.add.Tensor", { y, x.bias }) or y
  end,
  shapes = { { 1, 16, 64, 64 }, { 1, 64, 48, 96 }, { 1, 128, 160, 72 }, { 2, 40, 56, 64 }, { 1, 8, 256, 32 } },
  stable = { 1, 24, 40, 48 },
  edges = { { 1, 1, 1, 1 }, { 1, 1, 97, 61 }, { 1, 127, 1, 17 }, { 1, 31, 33, 127 }, { 3, 7, 13, 11 },
            { 1, 65, 129, 257 }, { 1, 5, 7, 0 }, { 1, 0, 8, 4 } },
}

types.softmax = {
  why = "softmax (or its logarithm) over the last dim",
  dims = { "r", "c" },
  rows = "r",
  args = function(d)
    return {
      { name = "x", role = "input", shape = { d.r, d.c } },
      { name = "out", role = "output", shape = { d.r, d.c } },
    }
  end,
  flops = function(d) return 5 * d.r * d.c end, -- max, subtract, exp, add, scale
  graph = function(g, x, a) return g:op(a.log and "aten.log_softmax.int" or "aten.softmax.int", { x.x, -1 }) end,
  shapes = { { 4, 128 }, { 16, 1000 }, { 2, 4096 }, { 64, 64 }, { 1, 65536 } },
  stable = { 5, 320 },
  edges = { { 1, 1 }, { 3, 7 }, { 17, 127 }, { 2, 129 }, { 1, 8191 }, { 257, 3 }, { 0, 16 } },
}

local function norm_args(d, with_bias)
  local list = {
    { name = "x", role = "input", shape = { d.r, d.c } },
    { name = "residual", role = "input", shape = { d.r, d.c }, optional = true },
    { name = "weight", role = "constant", shape = { d.c }, optional = true },
  }
  if with_bias then list[#list + 1] = { name = "bias", role = "constant", shape = { d.c }, optional = true } end
  list[#list + 1] = { name = "out", role = "output", shape = { d.r, d.c } }
  list[#list + 1] = { name = "sum", role = "output", shape = { d.r, d.c }, optional = true }
  return list
end

local norm_shapes = { { 4, 128 }, { 16, 768 }, { 2, 4096 }, { 33, 96 }, { 1, 11008 } }
local norm_edges = { { 1, 1 }, { 3, 7 }, { 17, 127 }, { 2, 129 }, { 1, 8191 }, { 257, 3 }, { 0, 16 } }

types.layernorm = {
  why = "layer norm over the last dim, with the residual add before it where there is one",
  dims = { "r", "c" },
  rows = "r",
  args = function(d) return norm_args(d, true) end,
  flops = function(d) return 8 * d.r * d.c end, -- add, mean (1), variance (3), scale and shift (3)
  graph = function(g, x, a, d)
    local t = x.residual and g:op("aten.add.Tensor", { x.x, x.residual }) or x.x
    return g:op("aten.layer_norm", { t, { d.c }, weight = x.weight, bias = x.bias, eps = a.eps }), t
  end,
  shapes = norm_shapes, stable = { 5, 320 }, edges = norm_edges,
}

types.rmsnorm = {
  why = "root-mean-square norm over the last dim, with the residual add before it where there is one",
  dims = { "r", "c" },
  rows = "r",
  args = function(d) return norm_args(d, false) end,
  flops = function(d) return 5 * d.r * d.c end, -- add, square and sum (2), scale (2)
  graph = function(g, x, a, d)
    local t = x.residual and g:op("aten.add.Tensor", { x.x, x.residual }) or x.x
    return g:op("aten.rms_norm", { t, { d.c }, weight = x.weight, eps = a.eps }), t
  end,
  shapes = norm_shapes, stable = { 5, 320 }, edges = norm_edges,
}

types.flash_attention = {
  why = "scaled dot-product attention",
  dims = { "b", "h", "hkv", "s", "t", "d" },
  args = function(d)
    return {
      { name = "q", role = "input", shape = { d.b, d.h, d.s, d.d } },
      { name = "k", role = "input", shape = { d.b, d.hkv, d.t, d.d } },
      { name = "v", role = "input", shape = { d.b, d.hkv, d.t, d.d } },
      { name = "mask", role = "input", shape = { d.b, d.h, d.s, d.t }, optional = true, draw = "mask" },
      { name = "out", role = "output", shape = { d.b, d.h, d.s, d.d } },
    }
  end,
  -- two matmuls; under a causal mask only the pairs j <= i (FlashAttention's count)
  flops = function(d, a)
    local pairs_ = d.s * d.t
    if a.causal then
      local m = math.min(d.s, d.t)
      pairs_ = m * (m + 1) // 2 + math.max(0, d.s - d.t) * d.t
    end
    return 4 * d.b * d.h * pairs_ * d.d
  end,
  graph = function(g, x, a, d)
    return g:op("aten.scaled_dot_product_attention", { x.q, x.k, x.v, attn_mask = x.mask, is_causal = a.causal,
      scale = a.scale, enable_gqa = d.h ~= d.hkv })
  end,
  shapes = { { 1, 2, 2, 64, 64, 64 }, { 2, 4, 2, 48, 48, 32 }, { 1, 8, 1, 16, 16, 64 }, { 1, 1, 1, 130, 130, 128 } },
  stable = { 1, 2, 1, 40, 40, 32 },
  edges = { { 1, 1, 1, 1, 1, 8 }, { 1, 3, 3, 17, 17, 24 }, { 1, 2, 1, 1, 77, 64 }, { 1, 2, 2, 63, 65, 40 },
            { 3, 6, 2, 33, 31, 16 }, { 1, 2, 2, 127, 127, 80 } },
}

types.fused_mlp = {
  why = "the feed-forward block: two or three matmuls and what lies between",
  dims = { "m", "k", "f", "n" },
  rows = "m",
  args = function(d)
    return {
      { name = "x", role = "input", shape = { d.m, d.k } },
      { name = "gate_w", role = "constant", shape = { d.k, d.f } },
      { name = "up_w", role = "constant", shape = { d.k, d.f }, optional = true },
      { name = "down_w", role = "constant", shape = { d.f, d.n } },
      { name = "gate_bias", role = "constant", shape = { d.f }, optional = true },
      { name = "up_bias", role = "constant", shape = { d.f }, optional = true },
      { name = "down_bias", role = "constant", shape = { d.n }, optional = true },
      { name = "out", role = "output", shape = { d.m, d.n } },
    }
  end,
  flops = function(d, a, has) return 2 * d.m * d.f * (d.k * (has.up_w and 2 or 1) + d.n) end,
  graph = function(g, x, a)
    local function affine(v, w, bias)
      local y = g:op("aten.matmul", { v, w })
      return bias and g:op("aten.add.Tensor", { y, bias }) or y
    end
    local h = affine(x.x, x.gate_w, x.gate_bias)
    if a.activation == "silu" then h = g:op("aten.silu", { h })
    elseif a.activation == "relu" then h = g:op("aten.relu", { h })
    elseif a.activation == "gelu" then h = g:op("aten.gelu", { h })
    else h = g:op("aten.gelu", { h, approximate = "tanh" }) end
    if x.up_w then h = g:op("aten.mul.Tensor", { h, affine(x.x, x.up_w, x.up_bias) }) end
    return affine(h, x.down_w, x.down_bias)
  end,
  shapes = { { 16, 64, 128, 64 }, { 64, 48, 96, 48 }, { 8, 96, 200, 72 } },
  stable = { 12, 40, 72, 40 },
  edges = { { 1, 1, 1, 1 }, { 1, 61, 97, 61 }, { 31, 33, 127, 17 }, { 65, 17, 40, 129 }, { 0, 8, 16, 8 } },
}

types.cross_entropy = {
  why = "cross entropy of logits against class indices",
  dims = { "r", "v" },
  args = function(d, a)
    return {
      { name = "logits", role = "input", shape = { d.r, d.v } },
      { name = "target", role = "input", shape = { d.r }, dtype = "i64", draw = "int", lo = 0, hi = d.v },
      { name = "loss", role = "output", shape = a.reduction == "none" and { d.r } or {} },
    }
  end,
  flops = function(d) return 4 * d.r * d.v end, -- max, subtract, exp, add
  graph = function(g, x, a)
    local reduction = ({ none = 0, mean = 1, sum = 2 })[a.reduction]
    return g:op("aten.cross_entropy_loss", { x.logits, x.target, reduction = reduction, ignore_index = a.ignore_index,
      label_smoothing = a.label_smoothing })
  end,
  shapes = { { 8, 128 }, { 4, 4096 }, { 32, 100 }, { 2, 32000 } },
  stable = { 5, 320 },
  edges = { { 1, 1 }, { 3, 7 }, { 17, 127 }, { 1, 8191 }, { 257, 3 } },
}

types.rotary_embedding = {
  why = "rotary position embedding of one tensor, or of queries and keys together",
  dims = { "b", "h", "h2", "t", "d" },
  args = function(d)
    return {
      { name = "x", role = "input", shape = { d.b, d.h, d.t, d.d } },
      { name = "y", role = "input", shape = { d.b, d.h2, d.t, d.d }, optional = true },
      { name = "cos", role = "input", shape = { d.b, 1, d.t, d.d }, draw = "cos" },
      { name = "sin", role = "input", shape = { d.b, 1, d.t, d.d }, draw = "cos" },
      { name = "out", role = "output", shape = { d.b, d.h, d.t, d.d } },
      { name = "out2", role = "output", shape = { d.b, d.h2, d.t, d.d }, optional = true },
    }
  end,
  flops = function(d) return 3 * d.b * (d.h + d.h2) * d.t * d.d end, -- two multiplies, one add
  graph = function(g, x, a, d)
    local function rotate(v, heads)
      if a.interleaved then
        local p = g:op("aten.view", { v, { d.b, heads, d.t, d.d // 2, 2 } })
        local even, odd = g:op("aten.select.int", { p, -1, 0 }), g:op("aten.select.int", { p, -1, 1 })
        return g:op("aten.view", { g:op("aten.stack", { { g:op("aten.neg", { odd }), even }, -1 }), { d.b, heads, d.t, d.d } })
      end
      local lo = g:op("aten.slice.Tensor", { v, 3, 0, d.d // 2 })
      local hi = g:op("aten.slice.Tensor", { v, 3, d.d // 2, d.d })
      return g:op("aten.cat", { { g:op("aten.neg", { hi }), lo }, -1 })
    end
    local function rope(v, heads)
      return g:op("aten.add.Tensor", { g:op("aten.mul.Tensor", { v, x.cos }), g:op("aten.mul.Tensor", { rotate(v, heads), x.sin }) })
    end
    return rope(x.x, d.h), x.y and rope(x.y, d.h2) or nil
  end,
  shapes = { { 1, 4, 4, 32, 64 }, { 2, 4, 2, 16, 32 }, { 1, 8, 1, 9, 128 } },
  stable = { 1, 2, 1, 12, 32 },
  edges = { { 1, 1, 1, 1, 2 }, { 1, 3, 1, 17, 10 }, { 3, 5, 5, 7, 64 }, { 1, 2, 2, 0, 8 } },
}

types.reduce = {
  why = "a reduction over one dim",
  dims = { "o", "c", "i" },
  args = function(d)
    return {
      { name = "x", role = "input", shape = { d.o, d.c, d.i } },
      { name = "out", role = "output", shape = { d.o, d.i } },
    }
  end,
  flops = function(d) return d.o * d.c * d.i end,
  graph = function(g, x, a)
    if a.op == "sum" then return g:op("aten.sum.dim_IntList", { x.x, { 1 } }) end
    if a.op == "mean" then return g:op("aten.mean.dim", { x.x, { 1 } }) end
    if a.op == "prod" then return g:op("aten.prod.dim_int", { x.x, 1 }) end
    return g:op("aten." .. a.op, { x.x, { 1 } }) -- amax, amin
  end,
  shapes = { { 16, 128, 1 }, { 2, 4096, 1 }, { 4, 64, 32 }, { 1, 1000, 7 } },
  stable = { 5, 320, 1 },
  edges = { { 1, 1, 1 }, { 3, 7, 1 }, { 17, 127, 1 }, { 1, 8191, 1 }, { 3, 5, 129 }, { 257, 3, 1 }, { 0, 4, 2 } },
}

-- The order of an argument's dims in memory, outermost first. Dims of size 1 say nothing of it
-- and go outermost.
local function order(arg)
  local out, real = {}, {}
  for i, n in ipairs(arg.shape) do
    local list = (n == 1 or arg.stride[i] == 0) and out or real
    list[#list + 1] = i
  end
  table.sort(real, function(p, q)
    if arg.stride[p] ~= arg.stride[q] then return arg.stride[p] > arg.stride[q] end
    return p < q
  end)
  return table.move(real, 1, #real, #out + 1, out)
end

-- Row-major strides of `shape` in the memory order of the spec's own argument, which broadcasts
-- (stride 0, or size 1 where its type's shape is larger) where that one does.
local function like(own, arg)
  local stride, step, perm = {}, 1, order(own)
  for k = #perm, 1, -1 do
    local i = perm[k]
    if own.stride[i] == 0 and own.shape[i] > 1 then
      stride[i] = 0
    else
      stride[i] = step
      step = step * math.max(arg.shape[i], 1)
    end
  end
  return stride
end

-- The arguments of a spec at other dims: roles, dtypes, broadcasts and memory order as its own.
local function args_at(spec, d)
  local list = types[spec.type].args(d, spec.attrs)
  local full = types[spec.type].args(spec.dims, spec.attrs)
  for i, arg in ipairs(list) do
    local own = spec.args[i]
    if own.role == "absent" then
      list[i] = { name = arg.name, role = "absent" }
    else
      for k = 1, #arg.shape do
        if own.shape[k] == 1 and full[i].shape[k] ~= 1 then arg.shape[k] = 1 end
      end
      arg.role, arg.dtype, arg.stride = own.role, own.dtype, like(own, arg)
      if own.draw and not arg.draw then arg.draw, arg.lo, arg.hi = own.draw, own.lo, own.hi end
      arg.optional = nil
    end
  end
  return list
end

local M = { families = families, tolerance = tolerance, why = {}, dims = {} }
for name, t in pairs(types) do
  M.why[name] = t.why
  M.dims[name] = array(t.dims)
end

-- The dims of a call, read off the shapes of its arguments; nil where these contradict each other.
function M.dims_of(type_, args, attrs)
  local plain, symbols, d = {}, {}, {}
  for name, a in pairs(attrs) do
    for _, v in pairs(a) do plain[name] = v end
  end
  for _, name in ipairs(types[type_].dims) do symbols[name] = name end
  for i, want in ipairs(types[type_].args(symbols, plain)) do
    local got = args[i]
    if got.role ~= "absent" then
      if #got.shape ~= #want.shape then return nil end
      for k, name in ipairs(want.shape) do
        local n = got.shape[k]
        if name == 1 then
          -- a dim that may broadcast: whatever the argument has
        elseif d[name] == nil or d[name] == 1 then d[name] = n
        elseif n ~= 1 and n ~= d[name] then return nil end
      end
    end
  end
  for _, name in ipairs(types[type_].dims) do d[name] = d[name] or 1 end
  return d
end

local function present(args)
  local has = {}
  for _, a in ipairs(args) do has[a.name] = a.role ~= "absent" end
  return has
end

-- {type, dims, attrs, args} -> {flops, bytes}: bytes each argument must cross memory once.
function M.cost(spec)
  local size = { f64 = 8, f32 = 4, f16 = 2, bf16 = 2, i64 = 8, i32 = 4, i16 = 2, i8 = 1, u8 = 1, bool = 1 }
  local bytes = 0
  for _, a in ipairs(spec.args) do
    if a.role ~= "absent" then
      local n = size[a.dtype]
      for i, extent in ipairs(a.shape) do
        if a.stride[i] ~= 0 or extent == 0 then n = n * extent end
      end
      bytes = bytes + n
    end
  end
  return { flops = types[spec.type].flops(spec.dims, spec.attrs, present(spec.args)), bytes = bytes }
end

-- A spec -> the arguments of its own shape with what a check must know of them (draw, lo, hi).
function M.own(spec)
  local list = args_at(spec, spec.dims)
  for i, a in ipairs(list) do
    if a.role ~= "absent" then a.shape, a.stride = spec.args[i].shape, spec.args[i].stride end
  end
  return array(list)
end

-- How many rows truth has time for where all of them would take about a second; nil where they do not.
local function sample_rows(spec, t)
  local flops, rows = t.flops(spec.dims, spec.attrs, present(spec.args)), spec.dims[t.rows]
  local few = math.min(64, math.max(4, 2e8 * rows // flops | 0))
  if (flops > 4e8 or M.cost(spec).bytes > 64e6) and few < rows then return few end
end

-- A spec -> the cases beside its own shape that a check sweeps: {stage, name, family, dims, args}.
function M.cases(spec)
  local t, out = types[spec.type], {}
  local function add(stage, family, d)
    local text = {}
    for _, name in ipairs(t.dims) do text[#text + 1] = name .. "=" .. d[name] end
    out[#out + 1] = { stage = stage, name = table.concat(text, " "), family = family, dims = d,
                      args = array(args_at(spec, d)), tol = tolerance.factor }
  end
  local shapes = each(t.shapes, t.dims)
  add("smoke", "normal", shapes[1])
  for _, d in ipairs(shapes) do add("shapes", "normal", d) end
  local stable = each({ t.stable }, t.dims)[1]
  for _, family in ipairs(families) do add("stability", family, stable) end
  add("determinism", "normal", shapes[2])
  for _, d in ipairs(each(t.edges, t.dims)) do add("edge", "normal", d) end
  local rows = t.rows and sample_rows(spec, t)
  if rows then
    local d = {}
    for _, name in ipairs(t.dims) do d[name] = name == t.rows and rows or spec.dims[name] end
    add("sample", "normal", d)
  end
  return array(out)
end

-- The canonical subgraph of {type, dims, attrs, args}: inputs are its inputs and constants in order.
function M.graph(g, case)
  local x, outs = {}, {}
  for _, a in ipairs(case.args) do
    if a.role == "input" or a.role == "constant" then
      x[a.name] = g:input(a.name, a.dtype, a.shape)
    elseif a.role == "output" then
      outs[#outs + 1] = a.name
    end
  end
  local values = { types[case.type].graph(g, x, case.attrs, case.dims) }
  for i = 1, #outs do g:output(values[i]) end
end

return M
