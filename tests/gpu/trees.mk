# trees.mk: builds the binaries of emitted trees in parallel: make -k -j -f
# trees.mk TREES="NAME …". The runtime, which all trees have, is compiled once, in
# the first of them.
first := $(firstword $(TREES))
flags := $(shell sed -n 's/^CFLAGS = //p' $(first)/Makefile)
runtime := $(shell cd $(first) && find runtime -name '*.c')
objects := $(runtime:%.c=objects/%.o)

all: $(addsuffix .built,$(TREES))

# An object is whole once it has its name: a command may be killed.
objects/%.o: $(first)/%.c
	@mkdir -p $(@D)
	cd $(first) && $(CC) $(flags) -c -o ../$@.new $*.c
	mv $@.new $@

%.built: $(objects)
	$(MAKE) -C $* \
	    SOURCES="train.c model.c launch.c images.c $(addprefix ../,$(objects))"

.PHONY: all
