-- What the starters are measured by: a product of 1024^3 against OpenBLAS, and the row kernels on rows that
-- no cache holds against the bandwidth of memory. `make optimize MODEL=tests/models/anchors.lua TOP=9`
return {
  name = "anchors",
  about = "1024^3 and the row kernels out of cache",
  inputs = { cpu = { 16384, 2048 } },
  dtype = { cpu = "f32" },
  build = function(g, opt)
    local d = opt.dtype
    local function w(name, shape) return g:weight(name, shape, { std = 1 }) end
    g:output(g:op("aten.linear", { g:input("a", d, { 1024, 1024 }), w("b", { 1024, 1024 }) }))
    local x = g:input("x", d, { 16384, 2048 })
    g:output(g:op("aten.softmax.int", { x, -1 }))
    g:output(g:op("aten.layer_norm", { x, { 2048 }, weight = w("ln_w", { 2048 }), bias = w("ln_b", { 2048 }), eps = 1e-5 }))
    g:output(g:op("aten.rms_norm", { x, { 2048 }, weight = w("rn_w", { 2048 }), eps = 1e-5 }))
    g:output(g:op("aten.sum.dim_IntList", { x, { 1 } }))
    g:output(g:op("aten.cross_entropy_loss", { x, g:input("target", "i64", { 16384 }, { lo = 0, hi = 2048 }) }))
  end,
}
