local body = require "llama_body"

return {
  name = "llama7b",
  about = "LLaMA-2 7B",
  inputs = { cpu = { 1, 32 }, cuda = { 1, 2048 } },
  dtype = { cpu = "f32", cuda = "f16" },
  build = function(g, opt)
    body(g, opt, { vocab = 32000, dim = 4096, layers = 32, heads = 32, kv_heads = 32, hidden = 11008, eps = 1e-5, theta = 10000 })
  end,
}
