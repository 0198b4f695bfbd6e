-- LLaMA's decoder (Touvron et al. 2023) at any size: RMSNorm, rotary embedding, grouped-query
-- attention, SwiGLU. Its files in this folder differ in numbers only.

local nn = require "nn"

-- c: {vocab, dim, layers, heads, kv_heads, hidden, eps, theta}
return function(g, opt, c)
  local batch, seq = table.unpack(opt.shape)
  local head = c.dim // c.heads
  -- keeps the residual stream's variance from growing with depth (GPT-2's initialisation)
  local into = { std = c.dim ^ -0.5 }
  local out = { std = (2 * c.layers * c.dim) ^ -0.5 }
  local down = { std = (2 * c.layers * c.hidden) ^ -0.5 }

  local ids = g:input("input_ids", "i64", { batch, seq }, { lo = 0, hi = c.vocab })
  local cos, sin = nn.rope_tables(g, seq, head, c.theta, opt.dtype)
  g.origin = "model.embed_tokens"
  local x = nn.embedding(g, "model.embed_tokens", ids, c.vocab, c.dim, { std = 1 })
  for i = 0, c.layers - 1 do
    local p = "model.layers." .. i
    g.origin = p .. ".self_attn"
    local h = nn.rms_norm(g, p .. ".input_layernorm", x, c.eps)
    local q = nn.split_heads(g, nn.linear(g, p .. ".self_attn.q_proj", h, c.heads * head, into), c.heads)
    local k = nn.split_heads(g, nn.linear(g, p .. ".self_attn.k_proj", h, c.kv_heads * head, into), c.kv_heads)
    local v = nn.split_heads(g, nn.linear(g, p .. ".self_attn.v_proj", h, c.kv_heads * head, into), c.kv_heads)
    local a = nn.attention(g, nn.rope(g, q, cos, sin), nn.rope(g, k, cos, sin), v, true)
    x = nn.add(g, x, nn.linear(g, p .. ".self_attn.o_proj", nn.merge_heads(g, a), c.dim, out))
    g.origin = p .. ".mlp"
    h = nn.rms_norm(g, p .. ".post_attention_layernorm", x, c.eps)
    x = nn.add(g, x, nn.swiglu(g, p .. ".mlp", h, c.hidden, { into = into, out = down }))
  end
  g.origin = "lm_head"
  g:output(nn.linear(g, "lm_head", nn.rms_norm(g, "model.norm", x, c.eps), c.vocab, into))
end
