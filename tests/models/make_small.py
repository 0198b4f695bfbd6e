"""Makes tests/models/small with PyTorch 2.9 or later: small programs, each with its inputs and outputs.

    python3 tests/models/make_small.py tests/models/small
"""
import io, json, os, struct, sys, zipfile
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils._pytree import tree_leaves

torch.manual_seed(0)
OUT = sys.argv[1]
NAMES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL", torch.bfloat16: "BF16", torch.float16: "F16"}


def tensors(tree):
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]


def save_tensors(path, named):
    header, at, blobs = {}, 0, []
    for name, t in sorted(named.items(), key=lambda kv: -kv[1].element_size()):
        b = t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(b)]}
        at += len(b)
        blobs.append(b)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def strip(graph):  # stack traces name the exporter's files
    for node in graph["nodes"]:
        node["metadata"] = {k: v for k, v in node["metadata"].items() if k in ("nn_module_stack", "torch_fn")}
        for i in node["inputs"]:
            if "as_graph" in i["arg"]:
                strip(i["arg"]["as_graph"]["graph"])


def repack(data, name):
    old, new = zipfile.ZipFile(io.BytesIO(data)), zipfile.ZipFile(f"{OUT}/{name}.pt2", "w")
    for member in old.namelist():
        path, body = name + "/" + member.split("/", 1)[1], old.read(member)
        if "sample_inputs" in path or "serialization_id" in path:
            continue
        if path.endswith("models/model.json"):
            doc = json.loads(body)
            strip(doc["graph_module"]["graph"])
            doc["guards_code"] = []
            body = json.dumps(doc).encode()
        info = zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED if path.endswith(".json") else zipfile.ZIP_STORED
        new.writestr(info, body)
    new.close()


def make(name, model, args, dynamic=None, train=False, decompose=False):
    model = model if train else model.eval()
    inputs = [t.clone() for t in tensors(args)]
    program = torch.export.export(model, args, dynamic_shapes=dynamic, strict=False)
    if decompose:
        program = program.run_decompositions()
    data = io.BytesIO()
    torch.export.save(program, data)
    repack(data.getvalue(), name)
    named = {f"input.{i}": t for i, t in enumerate(inputs)}
    named.update({f"output.{i}": t for i, t in enumerate(tensors(model(*args)))})
    save_tensors(f"{OUT}/{name}.safetensors", named)


class Fn(nn.Module):
    def __init__(self, fn, **parts):
        super().__init__()
        for k, v in parts.items():
            setattr(self, k, v)
        self.fn = fn

    def forward(self, *args):
        return self.fn(self, *args)


def X(*shape):
    return torch.randn(*shape)


def views_inplace(s, x):
    y = x + 1
    y[:, 1:].mul_(2)
    y[0].add_(1)
    y.t()[0].zero_()
    return y


def slice_assign(s, x):
    y = x.clone()
    y[:, ::2] = 0
    y[1] = 7.5
    y[..., -1] += x[..., 0]
    z = y.view(-1)
    z[3:6] = z[0:3] * 2
    return y, z


def meta(s, x):
    y = x.clone()
    y.unsqueeze_(0)
    y.mul_(2)
    z = y.squeeze(0)
    z.t_()
    z[0, 0] = 9
    y += 1
    w = z.reshape(-1)
    w[1] = 5
    return y, z, w


def split(s, x):
    a, b = x.clone().split(2, -1)
    a.add_(b)
    b.copy_(a.flip(0))
    c = torch.zeros(3, 4)
    c.copy_(x)
    c[:, 0].fill_(3)
    c.clamp_min_(0)
    return a, b, c


def rope(s, x):
    q = x.clone()
    q[..., ::2], q[..., 1::2] = x[..., ::2] * 2 - x[..., 1::2], x[..., 1::2] * 2 + x[..., ::2]
    return q, q * 1


def attn(s, x):
    b, n, d = x.shape
    q, k, v = (t.view(b, n, 4, -1).transpose(1, 2) for t in s.qkv(x).chunk(3, -1))
    m = torch.zeros(n, n).masked_fill(~torch.tril(torch.ones(n, n, dtype=torch.bool)), float("-inf"))
    one = F.scaled_dot_product_attention(q, k, v, attn_mask=m).transpose(1, 2).reshape(b, n, d)
    return one, F.scaled_dot_product_attention(q, k, v, is_causal=True), (q @ k.transpose(-1, -2) / d**0.5 + m).softmax(-1) @ v


def rnnlike(s, x):
    h = torch.zeros(2, 8)
    for t in x.unbind(1):
        h = torch.tanh(s.a(t) + s.b(h))
    return h


class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.register_buffer("f", X(4), persistent=False)

    @torch.no_grad()
    def tables(self, x):
        return (x[:, None] * self.f).cos(), (x[:, None] * self.f).sin()

    def forward(self, x):
        cos, sin = self.tables(torch.arange(x.shape[0]).float())
        y = self.l(x) * cos
        with torch.no_grad():
            z = y.relu() + sin
        return y + z


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(4))
        self.register_buffer("cache", torch.zeros(2, 8, 4))

    def forward(self, x):
        self.n.add_(1)
        self.cache[:, 2:4] = x
        return x * self.n + self.cache.sum(1, keepdim=True)


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        big = X(10, 4)
        self.w, self.v, self.t = nn.Parameter(big[2:6]), nn.Parameter(big[3:5]), nn.Parameter(X(4, 4).t())

    def forward(self, x):
        return x @ self.w + self.v.sum() + x @ self.t


os.makedirs(OUT, exist_ok=True)
auto, b, s = torch.export.Dim.AUTO, torch.export.Dim("b", min=1, max=64), torch.export.Dim("s", min=2, max=64)
q = torch.export.Dim("q", min=2, max=32)
last = torch.channels_last
make("views_inplace", Fn(views_inplace), (X(4, 5),))
make("slice_assign", Fn(slice_assign), (X(4, 6),))
make("meta", Fn(meta), (X(3, 4),))
make("split", Fn(split), (X(3, 4),))
make("rope", Fn(rope), (X(2, 3, 4),))
make("rnnlike", Fn(rnnlike, a=nn.Linear(4, 8), b=nn.Linear(8, 8)), (X(2, 5, 4),))
make("nograd2", NoGrad(), (X(5, 4),))
make("bufmut", Buffers(), (X(2, 2, 4),))
make("weight_views", Views(), (X(3, 4),))
make("batchnorm_train", nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True)), (X(2, 3, 8, 8),), train=True)
make("channels_last", nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1)).to(memory_format=last), (X(1, 3, 9, 9).to(memory_format=last),))
make("gqa_ri", Fn(lambda s, q, k, v: F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, dim=1))), (X(1, 4, 5, 8), X(1, 2, 5, 8), X(1, 2, 5, 8)))
make("none_args", Fn(lambda s, x, m, k: (x + k) * 2 if m is None else x * m), (X(3), None, 3))
make("dict_out", Fn(lambda s, d: {"a": d["x"] * 2, "b": [d["y"] + 1, d["x"].sum()]}), ({"x": X(3), "y": X(2)},))
make("attn", Fn(attn, qkv=nn.Linear(16, 48)), (X(2, 7, 16),), dynamic=(({0: b, 1: s},),))
make("dyn2", Fn(lambda s, x: (s.l(x.reshape(x.shape[0] * x.shape[1], -1)).view(x.shape[0], x.shape[1], -1), x.sum(1) * x.shape[1], torch.arange(x.shape[1]) + x.shape[0]), l=nn.Linear(6, 5)), (X(2, 7, 6),), dynamic=(({0: b, 1: s},),))
make("derived", Fn(lambda s, x, y: x + y[1:]), (X(5), X(6)), dynamic=(({0: q}, {0: q + 1}),))
make("conv", nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)), (X(2, 3, 16, 16),), dynamic=({0: auto, 2: auto, 3: auto},))
make("cnn", nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5), nn.Softmax(-1)), (X(2, 3, 8, 8),), decompose=True)
