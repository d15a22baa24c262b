# lib_own_data.sh: sourced by the tests of models that read NumPy files.
# shellcheck disable=SC2034
own_models="vit translation regression"

# own_data MODEL: writes its files to $work/MODEL.data, once; sets `spec`, the
# value of --data.
own_data() {
    case $1 in
    vit | conv | batch_norm) kind=images names="images labels" ;;
    translation) kind=pairs names="source target labels" ;;
    regression) kind=rows names="x y" ;;
    esac
    [ -e "$work/$1.data" ] || python3 "$root/tests/tools/arrays.py" $kind \
        "$work/$1.data" 256 || return 1
    spec=
    for input in $names; do
        spec=$spec${spec:+,}$input=$work/$1.data/$input.npy
    done
}

# own_compile MODEL OUT MESH: a small size, without dropout.
own_compile() {
    # shellcheck disable=SC2046
    compile "$2" "$1" "$3" --threads 1 $(sizes "$1") -D dropout=0.0
}
