-- GPT-2 (Radford et al. 2019) at any size: pre-LayerNorm, learned positions, tanh GELU, tied
-- embeddings.

local nn = require "nn"

-- c: {vocab, context, dim, layers, heads}
return function(g, opt, c)
  local batch, seq = table.unpack(opt.shape)
  if seq > c.context then error(("the context holds %d positions, not %d"):format(c.context, seq)) end
  local into = { bias = true, std = c.dim ^ -0.5 }
  local out = { bias = true, std = (2 * c.layers * c.dim) ^ -0.5 }
  local down = { bias = true, std = (8 * c.layers * c.dim) ^ -0.5 }

  local ids = g:input("input_ids", "i64", { batch, seq }, { lo = 0, hi = c.vocab })
  g.origin = "transformer"
  local tokens, wte = nn.embedding(g, "transformer.wte", ids, c.vocab, c.dim, { std = c.dim ^ -0.5 })
  local at = g:op("aten.arange", { seq, dtype = "i64" })
  local x = nn.add(g, tokens, nn.embedding(g, "transformer.wpe", at, c.context, c.dim, { std = 0.02 }))
  for i = 0, c.layers - 1 do
    local p = "transformer.h." .. i
    g.origin = p .. ".attn"
    local qkv = nn.linear(g, p .. ".attn.c_attn", nn.layer_norm(g, p .. ".ln_1", x, 1e-5), 3 * c.dim, into)
    local q, k, v = g:op("aten.split.Tensor", { qkv, c.dim, 2 })
    local a = nn.attention(g, nn.split_heads(g, q, c.heads), nn.split_heads(g, k, c.heads), nn.split_heads(g, v, c.heads), true)
    x = nn.add(g, x, nn.linear(g, p .. ".attn.c_proj", nn.merge_heads(g, a), c.dim, out))
    g.origin = p .. ".mlp"
    local h = nn.linear(g, p .. ".mlp.c_fc", nn.layer_norm(g, p .. ".ln_2", x, 1e-5), 4 * c.dim, into)
    h = g:op("aten.gelu", { h, approximate = "tanh" })
    x = nn.add(g, x, nn.linear(g, p .. ".mlp.c_proj", h, c.dim, down))
  end
  g.origin = "lm_head"
  g:output(g:op("aten.linear", { nn.layer_norm(g, "transformer.ln_f", x, 1e-5), wte }))
end
