# lib_page.sh: sourced by the tests of the page of `parc --emit html`: makes pages in
# $pages and counts the checks of page/check.py, which opens them in Chromium.
. "$root/tests/e2e/lib_curves.sh"

pages=$work/pages
mkdir "$pages"
large="-D dim=16384 -D n_heads=128 -D n_kv_heads=8 -D hidden=53248 -D vocab=128256
    -D n_layers=126 -D batch=2048 -D seq=8192"

# page NAME MODEL OPTIONS…: writes the page and the JSON of one plan.
page() {
    name=$1
    shift
    check "$name: parc writes the page" "$PARC" "$@" --emit html="$pages/$name.html" \
        --emit json="$pages/$name.json"
}

# Plans of 405B on 512 GPUs, without and with a pipeline.
large_pages() {
    # shellcheck disable=SC2086
    page large examples/llama.pdl $large --mesh 64x8 --machine h100-sxm
    staged llama schedule=1f1b >"$work/staged.pdl"
    # shellcheck disable=SC2086
    page large_pipeline "$work/staged.pdl" $large --mesh 8x8x8 -D accumulate=32 \
        --machine h100-sxm
}

said() { # said RESULT REASON
    echo "$2"
    [ "$1" = ok ]
}

# in_browser OPTIONS…: runs check.py and counts its checks. Without Chromium it counts
# nothing, except in CI, where it fails.
in_browser() {
    if ! python3 -B tests/e2e/page/check.py --find; then
        echo "skipped: no chromium; scripts/setup.sh emulation installs it"
        check "CI has chromium" test ! "${CI:-}"
        return
    fi
    check "the browser runs" python3 -B tests/e2e/page/check.py "$@" "$pages" "$work/results"
    tab=$(printf '\t')
    while IFS=$tab read -r result label reason; do
        case $result in
        ok | failed) check "$label" said "$result" "$reason" ;;
        note) echo "$label" ;;
        esac
    done <"$work/results"
    check "no check is missing" test "$(tail -n 1 "$work/results")" = end
}
