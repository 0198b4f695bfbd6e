local body = require "gpt2_body"

return {
  name = "gpt2-mini",
  about = "a GPT-2 sized for a laptop",
  inputs = { cpu = { 1, 128 }, cuda = { 1, 128 } },
  dtype = { cpu = "f32", cuda = "f16" },
  build = function(g, opt) body(g, opt, { vocab = 4096, context = 1024, dim = 256, layers = 4, heads = 4 }) end,
}
