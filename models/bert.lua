local body = require "bert_body"

return {
  name = "bert",
  about = "BERT base, 110 million parameters",
  inputs = { cpu = { 1, 128 }, cuda = { 8, 512 } },
  dtype = { cpu = "f32", cuda = "f16" },
  build = function(g, opt) body(g, opt, { vocab = 30522, context = 512, dim = 768, layers = 12, heads = 12 }) end,
}
