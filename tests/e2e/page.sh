#!/bin/sh
# page.sh: the page of `parc --emit html` in headless Chromium: its parts, its numbers
# against --emit json, the links between its parts, keys, colors, print, and safety.
# PAGE_SCREENSHOTS=DIR keeps pictures of all pages in DIR.
. "$(dirname "$0")/lib.sh"
. "$root/tests/e2e/lib_page.sh"

page llama examples/llama.pdl --mesh 8x8 --machine h100-sxm
in_all page gpt2 examples/gpt2.pdl --mesh 4x2
page three_d examples/three_d.pdl --mesh 4x2x2 --machine h100-sxm
# shellcheck disable=SC2086
in_all page cpu examples/llama.pdl --target cpu --mesh 2x2 $llama_sizes
in_all page nodes examples/llama.pdl --mesh 4x4 --node-size 4 --machine a100-sxm-80
in_all large_pages
same_page() { # two runs, and standard output
    "$PARC" examples/llama.pdl --mesh 8x8 --machine h100-sxm --emit html >"$work/again" &&
        cmp "$work/again" "$pages/llama.html"
}
check "the page depends only on the plan" same_page

# Two plans.
for plan in a:8x8 b:16x4; do
    "$PARC" examples/llama.pdl --mesh "${plan#*:}" --machine h100-sxm \
        --emit json="$pages/two.${plan%:*}.json" --emit html="$work/${plan%:*}.html"
done
"$PARC" compare "$pages/two.a.json" "$pages/two.b.json" --json \
    >"$pages/two.comparison.json"
check "two: parc writes the page" "$PARC" compare examples/llama.pdl --mesh 8x8 \
    --mesh 16x4 --machine h100-sxm --emit html="$pages/two.html"
of_pages() { # the page of two plans, of their pages
    "$PARC" compare "$work/a.html" "$work/b.html" --emit html="$work/two.html" &&
        cmp "$work/two.html" "$pages/two.html"
}
check "two: the page of two pages" of_pages

# A model whose file name and comments are HTML. `/` is a separator in a name: the first
# part of `</script>` is a directory.
mkdir "$work/<"
hostile="$work/</script><img src=x onerror=\"hacked=1\">' onmouseover='hacked=1 a:7:9.pdl"
cat >"$pages/hostile.texts" <<'END'
# </script><img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>
# <!-- <script> --> ]]> &lt;b&gt; \u003cimg\u003e \" ' ` ${hacked = 1} $& %s%n
# <!-- script -->
# <!-- data -->
END
{
    cat "$pages/hostile.texts"
    printf '# \342\200\250 \303\244 \360\237\224\245 and a byte that is not UTF-8: \344\n'
    cat examples/llama.pdl
} >"$hostile"
page hostile "$hostile" --mesh 2x2 --machine h100-sxm

in_browser
finish
