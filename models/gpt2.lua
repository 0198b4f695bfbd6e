local body = require "gpt2_body"

return {
  name = "gpt2",
  about = "GPT-2, 124 million parameters",
  inputs = { cpu = { 1, 1024 }, cuda = { 1, 1024 } },
  dtype = { cpu = "f32", cuda = "f16" },
  build = function(g, opt) body(g, opt, { vocab = 50257, context = 1024, dim = 768, layers = 12, heads = 12 }) end,
}
