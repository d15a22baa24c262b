#!/bin/sh
# page_time.sh: the page of a plan of 405B is drawn within one second of its navigation.
# alone: other tests take the time of the processor.
. "$(dirname "$0")/lib.sh"
. "$root/tests/e2e/lib_page.sh"

large_pages
in_browser --time
finish
