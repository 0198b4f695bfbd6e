-- Layers over g (tools/lib/builder.h), as PyTorch's modules of the same names lower to ATen ops.

local nn = {}

function nn.linear(g, name, x, out, opt)
  opt = opt or {}
  local w = g:weight(name .. ".weight", { out, x.shape[x.ndim] }, { std = opt.std })
  local b = opt.bias and g:weight(name .. ".bias", { out }, { std = 0.02 }) or nil
  return g:op("aten.linear", { x, w, bias = b })
end

function nn.embedding(g, name, ids, count, dim, opt)
  local w = g:weight(name .. ".weight", { count, dim }, { std = opt and opt.std })
  return g:op("aten.embedding", { w, ids }), w
end

function nn.layer_norm(g, name, x, eps)
  local dim = x.shape[x.ndim]
  local w = g:weight(name .. ".weight", { dim }, { mean = 1, std = 0.1 })
  local b = g:weight(name .. ".bias", { dim }, { std = 0.1 })
  return g:op("aten.layer_norm", { x, { dim }, weight = w, bias = b, eps = eps })
end

function nn.rms_norm(g, name, x, eps)
  local dim = x.shape[x.ndim]
  local w = g:weight(name .. ".weight", { dim }, { mean = 1, std = 0.1 })
  return g:op("aten.rms_norm", { x, { dim }, weight = w, eps = eps })
end

function nn.add(g, a, b) return g:op("aten.add.Tensor", { a, b }) end
function nn.mul(g, a, b) return g:op("aten.mul.Tensor", { a, b }) end

-- cos and sin of position times frequency, [1, 1, seq, dim] each; they depend on no input and
-- are constants after import.
function nn.rope_tables(g, seq, dim, theta, dtype)
  local steps = g:op("aten.arange.start_step", { 0, dim, 2, dtype = "f32" })
  local exponent = g:op("aten.div.Tensor", { steps, dim })
  local freq = g:op("aten.reciprocal", { g:op("aten.pow.Scalar", { theta, exponent }) })
  local at = g:op("aten.arange", { seq, dtype = "f32" })
  local angle = nn.mul(g, g:op("aten.unsqueeze", { at, 1 }), g:op("aten.unsqueeze", { freq, 0 }))
  local both = g:op("aten.view", { g:op("aten.cat", { { angle, angle }, -1 }), { 1, 1, seq, dim } })
  local function cast(v) return dtype == "f32" and v or g:op("aten.to.dtype", { v, dtype }) end
  return cast(g:op("aten.cos", { both })), cast(g:op("aten.sin", { both }))
end

-- x cos + rotate_half(x) sin, as the LLaMA of transformers writes it. x is [batch, heads, seq, dim].
function nn.rope(g, x, cos, sin)
  local half = x.shape[4] // 2
  local lo = g:op("aten.slice.Tensor", { x, 3, 0, half })
  local hi = g:op("aten.slice.Tensor", { x, 3, half, 2 * half })
  local rotated = g:op("aten.cat", { { g:op("aten.neg", { hi }), lo }, -1 })
  return nn.add(g, nn.mul(g, x, cos), nn.mul(g, rotated, sin))
end

-- [batch, seq, heads * dim] -> [batch, heads, seq, dim]
function nn.split_heads(g, x, heads)
  local b, s, width = table.unpack(x.shape)
  return g:op("aten.transpose.int", { g:op("aten.view", { x, { b, s, heads, width // heads } }), 1, 2 })
end

function nn.merge_heads(g, x)
  local b, h, s, d = table.unpack(x.shape)
  return g:op("aten.reshape", { g:op("aten.transpose.int", { x, 1, 2 }), { b, s, h * d } })
end

-- Scaled dot-product attention over split heads; k and v may have fewer heads than q.
function nn.attention(g, q, k, v, causal)
  return g:op("aten.scaled_dot_product_attention", { q, k, v, is_causal = causal, enable_gqa = q.shape[2] ~= k.shape[2] })
end

-- down(silu(gate(x)) * up(x))
function nn.swiglu(g, name, x, hidden, opt)
  local dim = x.shape[x.ndim]
  local gate = g:op("aten.silu", { nn.linear(g, name .. ".gate_proj", x, hidden, opt.into) })
  return nn.linear(g, name .. ".down_proj", nn.mul(g, gate, nn.linear(g, name .. ".up_proj", x, hidden, opt.into)), dim, opt.out)
end

return nn
