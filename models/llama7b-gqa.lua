local body = require "llama_body"

return {
  name = "llama7b-gqa",
  about = "LLaMA-2 7B with 8 key/value heads",
  inputs = { cpu = { 1, 32 }, cuda = { 1, 2048 } },
  dtype = { cpu = "f32", cuda = "f16" },
  build = function(g, opt)
    body(g, opt, { vocab = 32000, dim = 4096, layers = 32, heads = 32, kv_heads = 8, hidden = 11008, eps = 1e-5, theta = 10000 })
  end,
}
