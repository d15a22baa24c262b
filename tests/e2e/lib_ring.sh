# lib_ring.sh: sourced by tests of rings of attention.

# The model without the module that has a bias, which no ring takes.
without_bias() {
    sed -e '/whole: Whole(/d' -e 's/(h + whole(h)) \*/h */' -e '/^        whole\./d' \
        -e 's/, \[whole\]//' tests/data/context.pdl
}
