-- A model of your own: copy this file to models/NAME.lua, change it, and `make optimize MODEL=NAME`.
--
-- build() receives g, which records ATen ops, and opt = {shape, dtype, device}. Weights are random
-- (seeded by their names): what is optimised is the shape of the computation. nn.lua holds the
-- usual layers; g:op calls any op of the set by its ATen name, arguments by place or by name.

local nn = require "nn"

local dim, hidden, classes, heads = 192, 512, 1000, 6

return {
  name = "custom",
  about = "a template: one transformer block with a classification loss",

  -- What INPUT and DTYPE are when nobody says, by device.
  inputs = { cpu = { 4, 64 }, cuda = { 16, 512 } },
  dtype = { cpu = "f32", cuda = "f16" },

  build = function(g, opt)
    local batch, seq = table.unpack(opt.shape)

    -- Inputs: a name, a dtype, a shape; integers are drawn from [lo, hi).
    local x = g:input("x", opt.dtype, { batch, seq, dim })
    local labels = g:input("labels", "i64", { batch * seq }, { lo = 0, hi = classes })

    -- Nodes made from here on are reported under this name.
    g.origin = "block.attn"
    local h = nn.rms_norm(g, "attn_norm", x, 1e-6)
    local q = nn.split_heads(g, nn.linear(g, "q", h, dim), heads)
    local k = nn.split_heads(g, nn.linear(g, "k", h, dim), heads)
    local v = nn.split_heads(g, nn.linear(g, "v", h, dim), heads)
    x = nn.add(g, x, nn.linear(g, "o", nn.merge_heads(g, nn.attention(g, q, k, v, true)), dim))

    g.origin = "block.mlp"
    x = nn.add(g, x, nn.swiglu(g, "mlp", nn.rms_norm(g, "mlp_norm", x, 1e-6), hidden, { into = {}, out = {} }))

    g.origin = "head"
    local logits = nn.linear(g, "classifier", x, classes, { bias = true })

    -- Any op by its ATen name.
    logits = g:op("aten.view", { logits, { batch * seq, classes } })
    g:output(g:op("aten.cross_entropy_loss", { logits, labels }))
  end,
}
