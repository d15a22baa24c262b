# trees.mk: the binaries of emitted trees, side by side: make -k -j -f trees.mk
# TREES="NAME …".
all: $(addsuffix .built,$(TREES))

%.built:
	$(MAKE) -C $*

.PHONY: all
