local body = require "bert_body"

return {
  name = "bert-mini",
  about = "a BERT sized for a laptop",
  inputs = { cpu = { 1, 128 }, cuda = { 8, 128 } },
  dtype = { cpu = "f32", cuda = "f16" },
  build = function(g, opt) body(g, opt, { vocab = 4096, context = 512, dim = 256, layers = 4, heads = 4 }) end,
}
