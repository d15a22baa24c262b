#!/bin/sh
# parc_cpu.sh: runs parc with --cpu $CHECK_CPU for programs that run on CPUs,
# unless the arguments name a level.
target= named= previous=
for word; do
    case $previous$word in
    --cpu*) named=1 ;;
    --target=cpu | --targetcpu) target=1 ;;
    esac
    previous=
    [ "$word" = --target ] && previous=--target
done
[ "$target" ] && [ -z "$named" ] && set -- --cpu "$CHECK_CPU" "$@"
exec "$BUILD/parc" "$@"
