local body = require "llama_body"

return {
  name = "llama-mini",
  about = "a LLaMA sized for a laptop",
  inputs = { cpu = { 1, 128 }, cuda = { 1, 128 } },
  dtype = { cpu = "f32", cuda = "f16" },
  build = function(g, opt)
    body(g, opt, { vocab = 4096, dim = 256, layers = 4, heads = 4, kv_heads = 2, hidden = 688, eps = 1e-5, theta = 10000 })
  end,
}
