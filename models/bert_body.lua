-- BERT (Devlin et al. 2018) at any size: post-LayerNorm, learned positions and token types, erf
-- GELU, a pooler over the first token.

local nn = require "nn"

-- c: {vocab, context, dim, layers, heads}
return function(g, opt, c)
  local batch, seq = table.unpack(opt.shape)
  if seq > c.context then error(("the context holds %d positions, not %d"):format(c.context, seq)) end
  local into = { bias = true, std = c.dim ^ -0.5 }
  local down = { bias = true, std = (4 * c.dim) ^ -0.5 }

  local ids = g:input("input_ids", "i64", { batch, seq }, { lo = 0, hi = c.vocab })
  local types = g:input("token_type_ids", "i64", { batch, seq }, { lo = 0, hi = 2 })
  g.origin = "embeddings"
  local words = nn.embedding(g, "embeddings.word_embeddings", ids, c.vocab, c.dim)
  local kinds = nn.embedding(g, "embeddings.token_type_embeddings", types, 2, c.dim)
  local places = nn.embedding(g, "embeddings.position_embeddings", g:op("aten.arange", { seq, dtype = "i64" }), c.context, c.dim)
  local x = nn.layer_norm(g, "embeddings.LayerNorm", nn.add(g, nn.add(g, words, kinds), places), 1e-12)
  for i = 0, c.layers - 1 do
    local p = "encoder.layer." .. i
    g.origin = p .. ".attention"
    local q = nn.split_heads(g, nn.linear(g, p .. ".attention.self.query", x, c.dim, into), c.heads)
    local k = nn.split_heads(g, nn.linear(g, p .. ".attention.self.key", x, c.dim, into), c.heads)
    local v = nn.split_heads(g, nn.linear(g, p .. ".attention.self.value", x, c.dim, into), c.heads)
    local a = nn.merge_heads(g, nn.attention(g, q, k, v, false))
    x = nn.layer_norm(g, p .. ".attention.output.LayerNorm", nn.add(g, nn.linear(g, p .. ".attention.output.dense", a, c.dim, into), x), 1e-12)
    g.origin = p .. ".mlp"
    local h = g:op("aten.gelu", { nn.linear(g, p .. ".intermediate.dense", x, 4 * c.dim, into) })
    x = nn.layer_norm(g, p .. ".output.LayerNorm", nn.add(g, nn.linear(g, p .. ".output.dense", h, c.dim, down), x), 1e-12)
  end
  g.origin = "pooler"
  local first = g:op("aten.select.int", { x, 1, 0 })
  g:output(x, g:op("aten.tanh", { nn.linear(g, "pooler.dense", first, c.dim, into) }))
end
