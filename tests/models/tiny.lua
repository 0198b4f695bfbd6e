-- A softmax of a product: what the pipeline's tests search, since its trials are short.
return {
  name = "tiny",
  about = "a softmax of a product",
  inputs = { cpu = { 16, 64 } },
  dtype = { cpu = "f32" },
  build = function(g, opt)
    local x = g:input("x", opt.dtype, opt.shape or { 16, 64 })
    g:output(g:op("aten.softmax.int", { g:op("aten.linear", { x, g:weight("w", { 512, 64 }, { std = 1 }) }), -1 }))
  end,
}
