-- A norm and a softmax: what the pipeline's tests search, since trials of them are short.
return {
  name = "tiny",
  about = "a norm and a softmax",
  inputs = { cpu = { 16, 512 } },
  dtype = { cpu = "f32" },
  build = function(g, opt)
    local x = g:input("x", opt.dtype, { 16, 512 })
    g:output(g:op("aten.softmax.int", { g:op("aten.rms_norm", { x, { 512 }, weight = g:weight("w", { 512 }, { std = 1 }), eps = 1e-5 }), -1 }))
  end,
}
