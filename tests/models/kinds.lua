-- One call of every kernel type, each its own group: what the judge's tests take their specs from.
return {
  name = "kinds",
  about = "one call of every kernel type, small",
  inputs = { cpu = { 1, 48 } },
  dtype = { cpu = "f32" },
  build = function(g, opt)
    local d = opt.dtype
    local function w(name, shape) return g:weight(name, shape, { std = 1 }) end
    local x = g:input("x", d, { 48, 96 })
    g:output(g:op("aten.matmul", { x, w("mm", { 96, 80 }) }))
    g:output(g:op("aten.linear", { x, w("lin", { 72, 96 }), bias = w("lin_b", { 72 }) }))
    -- so large that truth has time for some of its rows alone
    g:output(g:op("aten.linear", { g:input("large", d, { 1024, 640 }), w("large_w", { 400, 640 }), bias = w("large_b", { 400 }) }))
    g:output(g:op("aten.softmax.int", { g:input("s", d, { 24, 1000 }), -1 }))
    g:output(g:op("aten.layer_norm", { g:input("ln", d, { 40, 768 }), { 768 }, weight = w("ln_w", { 768 }), bias = w("ln_b", { 768 }), eps = 1e-5 }))
    g:output(g:op("aten.rms_norm", { g:input("rn", d, { 40, 768 }), { 768 }, weight = w("rn_w", { 768 }), eps = 1e-5 }))
    local q, k, v = g:input("q", d, { 1, 4, 48, 64 }), g:input("k", d, { 1, 2, 48, 64 }), g:input("v", d, { 1, 2, 48, 64 })
    g:output(g:op("aten.scaled_dot_product_attention", { q, k, v, is_causal = true, enable_gqa = true }))
    local m = g:input("m", d, { 32, 64 })
    local gate, up = g:op("aten.linear", { m, w("gate", { 160, 64 }) }), g:op("aten.linear", { m, w("up", { 160, 64 }) })
    g:output(g:op("aten.linear", { g:op("aten.mul.Tensor", { g:op("aten.silu", { gate }), up }), w("down", { 64, 160 }) }))
    local y, cos, sin = g:input("y", d, { 1, 4, 32, 64 }), g:input("cos", d, { 1, 1, 32, 64 }), g:input("sin", d, { 1, 1, 32, 64 })
    local lo, hi = g:op("aten.slice.Tensor", { y, 3, 0, 32 }), g:op("aten.slice.Tensor", { y, 3, 32, 64 })
    local turned = g:op("aten.cat", { { g:op("aten.neg", { hi }), lo }, -1 })
    g:output(g:op("aten.add.Tensor", { g:op("aten.mul.Tensor", { y, cos }), g:op("aten.mul.Tensor", { turned, sin }) }))
    local target = g:input("target", "i64", { 16 }, { lo = 0, hi = 2000 })
    g:output(g:op("aten.cross_entropy_loss", { g:input("logits", d, { 16, 2000 }), target }))
    g:output(g:op("aten.sum.dim_IntList", { g:input("r", d, { 64, 1000 }), { 1 } }))
  end,
}
