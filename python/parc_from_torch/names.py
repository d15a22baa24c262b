"""Names in the file: the user's where PDL can have them."""

import re

# What a name in the file cannot be, or would hide.
WORDS = {"if", "else", "for", "in", "return", "and", "or", "not", "true", "false", "none",
         "batch", "seq", "training"}
MODULES = {"Linear", "Embedding", "RMSNorm", "LayerNorm", "Dropout", "Conv1d", "Conv2d",
           "LoRALinear"}
FUNCTIONS = set("""
    abs arange argmax attention avg_pool2d broadcast ceil clamp concat conv1d conv2d cos count
    cross_entropy cumsum detach
    dropout einsum embedding erf exp float floor gather gelu gelu_tanh heads like linear_recurrence log
    log_softmax logsumexp max max_pool2d maximum may_be mean merge_heads minimum mse_loss normal
    onehot pad pair random range rank recip refuse relu reshape roll rope round rsqrt scatter_add select sigmoid
    silu sin size slice softmax softplus split sqrt square squeeze sum tanh transpose
    truncated_normal uniform unsqueeze where""".split())


def assigned_name(text):
    """'h' of the source line 'h = x + f(x)', or of its first line."""
    match = re.match(r"\s*([A-Za-z_]\w*)\s*(:[^=]+)?=(?!=)", text)
    return match[1] if match else ""


def assigned_names(text):
    """['q', 'k'] of the source line 'q, k = f(x)'."""
    match = re.match(r"\s*\(?((?:\w+\s*,\s*)+\w+)\)?\s*=(?!=)", text)
    return re.findall(r"\w+", match[1]) if match else []


def plain_name(text):
    """A name of the traced graph without its number: 'add' of 'add_3'."""
    return re.sub(r"(_\d+)+$", "", text) or "x"


def element_name(array):
    """The name of one element in a loop: 'layer' of 'layers'."""
    name = array.split(".")[-1]
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-1] if name.endswith("s") and len(name) > 2 else "block"


def identifier(name, kind):
    """A name of the state dict as one word: 'net.0' becomes net_0, and '0', an element
    of an nn.Sequential, layer_0."""
    word = re.sub(r"\W", "_", name)
    return word if re.match(r"[A-Za-z_]", word) else f"{kind}_{word}"


def number_name(name):
    """The name of a formal: that of the user's number if PDL can have it."""
    return f"n_{name}" if name in WORDS else name


def unused(name, taken):
    """A name that is not among `taken`: the name itself, or with a number."""
    base, n = name, 2
    while name in taken:
        name, n = f"{base}{n}", n + 1
    return name


def member_names(members, kind, functions, taken):
    """{name in the state dict: name in the file} of children or parameters.
    `functions`: those that the forward calls, which a child's name would hide."""
    found = {}
    for name in members:
        word = identifier(name, kind)
        if word in functions or word in WORDS:
            word = f"{word}_{kind}"
        found[name] = unused(word, taken | set(found.values()))
    return found
