local body = require "llama_body"

return {
  name = "llama-124m",
  about = "a LLaMA of 124 million parameters",
  inputs = { cpu = { 1, 512 }, cuda = { 1, 512 } },
  dtype = { cpu = "f32", cuda = "f16" },
  build = function(g, opt)
    body(g, opt, { vocab = 32000, dim = 768, layers = 12, heads = 12, kv_heads = 4, hidden = 2048, eps = 1e-5, theta = 10000 })
  end,
}
