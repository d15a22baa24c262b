#!/bin/sh
# install.sh: make install: the installed parc needs no other files; documents,
# manual page and completion scripts are complete; make uninstall removes all.
. "$(dirname "$0")/lib.sh"

# An installed parc runs from another directory, without the libraries of the
# source tree and with no variable that names them.
installed() { # installed COMMAND…
    (cd "$work/elsewhere" && env -u BUILD PATH="$work/root/usr/bin:$PATH" "$@")
}
mkdir "$work/elsewhere"
check "make install" make BUILD="$BUILD" DESTDIR="$work/root" PREFIX=/usr \
    install
cp examples/toy.pdl "$work/elsewhere/my.pdl"
check "installed parc plans" installed parc my.pdl --mesh 2x2 --emit plan=plan
check "installed parc compiles" installed parc my.pdl --target cpu --mesh 2x2 \
    -o train
check "the program of the installed parc trains" installed ./train --steps 3 --log log
check "the built parc compiles" compile "$work/train" toy 2x2
check "the program of the built parc trains" "$work/train" --steps 3 --log "$work/log"
check "both curves are equal" same_curve "$work/elsewhere/log" "$work/log" 0
check "installed parc writes sources" installed parc my.pdl --target cpu \
    --mesh 2x2 -S tree
check "installed examples" installed parc \
    "$work/root/usr/share/parc/examples/feedforward.pdl" --emit json=json
check "the importer is installed whole" diff -r -x __pycache__ python/parc_from_torch \
    "$work/root/usr/share/parc/python/parc_from_torch"

# ---- the manual page and the completion scripts ----

share=$work/root/usr/share
options=$("$PARC" --help | grep -oE '^  (-., )?--?[A-Za-z-]+' |
    sed 's/.*[ ,]//' | sort -u)
check "the help lists options" test "$(echo "$options" | wc -l)" -ge 20
lists_all() { # lists_all FILE PREFIX…: the file names every option
    for option in $options; do
        plain=$(echo "$option" | sed 's/^-*//')
        grep -qE -- "($2)$plain([^a-z-]|\$)" "$1" ||
            { echo "$1 lacks $option" && return 1; }
    done
}
check "parc.1 has every option" lists_all "$share/man/man1/parc.1" \
    'Fl Fl |Fl '
check "bash has every option" lists_all \
    "$share/bash-completion/completions/parc" '-'
check "zsh has every option" lists_all "$share/zsh/site-functions/_parc" '-'
check "fish has every option" lists_all \
    "$share/fish/vendor_completions.d/parc.fish" '-[ls] '
completes() { # completes EXPECTED WORD…: bash's completions of the last word
    cat >"$work/complete.bash" <<'END'
source "$1"
COMP_WORDS=("${@:3}")
COMP_CWORD=$(($# - 3))
_parc
[ "${COMPREPLY[*]}" = "$2" ] || { echo "${COMPREPLY[*]}"; exit 1; }
END
    bash "$work/complete.bash" "$share/bash-completion/completions/parc" "$@"
}
check "bash completes an option" completes "--mesh" parc --me
check "bash completes a word" completes "cpu" parc --target cp
check "bash completes a word after =" completes "cpu" parc --target = cp
check "bash completes all words after =" completes "cuda cpu" parc --target =
check "bash completes a pass" completes "partition" parc --dump-after parti
in_elsewhere() { (cd "$work/elsewhere" && "$@"); }
check "bash completes an input" in_elsewhere completes "my.pdl" parc my
for shell in zsh fish; do
    file=$share/fish/vendor_completions.d/parc.fish
    [ $shell = fish ] || file=$share/zsh/site-functions/_parc
    ! command -v $shell >/dev/null 2>&1 ||
        check "$shell parses its completion script" $shell -n "$file"
done
check "an unknown shell is refused" sh -c '"$1" --completion tcsh; test $? = 2' \
    - "$PARC"
pages=$(grep -oE '[a-z-]+[.]md' "$share/man/man1/parc.1" | sort -u)
check "parc.1 names pages" test -n "$pages"
for page in $pages; do
    check "parc.1 names $page, which is installed" \
        test -s "$share/doc/parc/$page"
done

check "make uninstall" make BUILD="$BUILD" DESTDIR="$work/root" PREFIX=/usr \
    uninstall
check "make uninstall leaves no file" \
    sh -c 'test -z "$(find "$1" -type f)"' - "$work/root"
finish
