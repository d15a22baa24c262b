# trees.mk: builds the binaries of emitted trees in parallel: make -k -j -f
# trees.mk TREES="NAME …".
all: $(addsuffix .built,$(TREES))

%.built:
	$(MAKE) -C $*

.PHONY: all
