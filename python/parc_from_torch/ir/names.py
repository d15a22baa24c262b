"""Names in the file: the user's where PDL can have them."""

import re
import unicodedata

# What a name in the file cannot be, or would hide.
WORDS = {"if", "else", "for", "in", "return", "and", "or", "not", "true", "false", "none",
         "batch", "seq", "training"}
MODULES = {"Linear", "Embedding", "RMSNorm", "LayerNorm", "BatchNorm", "Dropout", "DropPath", "Conv1d", "Conv2d",
           "LoRALinear"}
FUNCTIONS = set("""
    abs arange argmax argsort attention avg_pool2d broadcast ceil clamp combine_rows concat conv1d conv2d cos count
    cross_entropy cumsum detach
    drop_path dropout flip einsum embedding erf exp expm1 float floor gather gather_pairs gather_rows gelu gelu_tanh
    group_rows grouped_bias grouped_matmul heads int like
    linear_recurrence log log1p
    log_softmax logsumexp max max_pool2d maximum may_be mean merge_heads minimum mse_loss normal
    onehot pad pair random range rank recip refuse relu reshape roll rope round rsqrt scatter_add select sigmoid
    silu sin size slice softmax softplus sort split sqrt square squeeze sum tanh topk transpose
    truncated_normal uniform unsqueeze where""".split())


def ascii_name(text, kind="x"):
    """A name of Python as one of PDL, which has ASCII letters only: 'große' becomes
    gro_e, and one without such letters the word `kind`. Names may become equal."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text)
                    if not unicodedata.combining(c))
    word = re.sub(r"\W", "_", plain, flags=re.ASCII)
    return word if re.search("[A-Za-z0-9]", word) or word == text else kind


def words_in(text):
    """The names in an expression: without the e of 1e-5."""
    return re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)


def assigned_name(text):
    """'h' of the source line 'h = x + f(x)', or of its first line."""
    match = re.match(r"\s*([^\W\d]\w*)\s*(:[^=]+)?=(?!=)", text)
    return ascii_name(match[1]) if match else ""


def assigned_names(text):
    """['q', 'k'] of the source line 'q, k = f(x)'."""
    match = re.match(r"\s*\(?((?:\w+\s*,\s*)+\w+)\)?\s*=(?!=)", text)
    return [ascii_name(w) for w in re.findall(r"\w+", match[1])] if match else []


def plain_name(text):
    """A name of the traced graph without its number: 'add' of 'add_3'."""
    return re.sub(r"(_\d+)+$", "", ascii_name(text)) or "x"


def element_name(array):
    """The name of one element in a loop: 'layer' of 'layers'."""
    name = array.split(".")[-1]
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-1] if name.endswith("s") and len(name) > 2 else "block"


def identifier(name, kind):
    """A name of the state dict as one word: 'net.0' becomes net_0, and '0', an element
    of an nn.Sequential, layer_0."""
    word = ascii_name(name, kind)
    return word if re.match(r"[A-Za-z_]", word) else f"{kind}_{word}"


def number_name(name):
    """The name of a formal: that of the user's number if PDL can have it."""
    word = identifier(name, "size")
    return f"n_{word}" if word in WORDS else word


def number_names(numbers):
    """{name: number} with the names of formals."""
    found = {}
    for name, x in numbers.items():
        found[unused(number_name(name), found)] = x
    return found


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
