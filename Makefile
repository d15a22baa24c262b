# Makefile: builds parc into build/, runs its tests, installs it.
#
#   make            builds build/parc and its runtime libraries
#   make check      runs every test, each feature once; make check-asan: under
#                   sanitizers
#   make check-all  runs all cases of every test, and check-cpu: what CI runs
#   make check-cpu  runs the tests that depend on the CPU, at the lowest --cpu
#                   level
#   make coverage   prints which part of the code make check runs, by directory
#   make fuzz       fuzzes the readers of files for SECONDS (600), from SEED
#   make curves     compares the loss curves of all variants of the examples
#   make resume     resumes all variants of the examples on all meshes
#   make dumps      continues every example from the dump after every pass
#   make crash      kills a run at 200 moments and resumes it each time
#   make demo       compiles and trains a small Llama on a 2x2 mesh
#   make bench      compares step time with the machine's peak and with PyTorch,
#                   checkpoints with the disk, and data with a step
#   make levels     builds the runtime libraries of the levels of --cpu
#   make forecast-fit  writes the machine files from tables of microbenchmarks
#   make bench-compile  measures how planning time grows with the model's size
#   make install    installs below DESTDIR and PREFIX
#   V=1 prints commands; BUILD=dir selects another build directory, SANITIZE=1
#   builds with sanitizers.

PREFIX ?= /usr/local
BUILD ?= build
CC ?= cc
V ?= 0
Q = $(if $(filter 0,$(V)),@)
say = @$(if $(filter 0,$(V)),printf '  %-7s %s\n' '$(1)' '$(2)')

WARN = -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes \
       -Wmissing-prototypes -Wswitch-enum -Wvla -Wno-format-zero-length
CFLAGS ?= -O2 -g
ifdef CI
WARN += -Werror
endif
ifdef SANITIZE
CFLAGS += -fsanitize=address,undefined -fno-omit-frame-pointer
WARN += -Wno-format-truncation
LDFLAGS += -fsanitize=address,undefined
endif
PARC_CFLAGS = -std=c11 $(WARN) -D_GNU_SOURCE -I. -I$(BUILD)/gen
# The runtime has three kinds of builds: for this machine (its vector
# instructions matter for speed), for each level of --cpu (make levels), and
# without -march. parc itself links the last one.
RT_CFLAGS = -std=c11 $(WARN) -D_GNU_SOURCE -Iruntime -O3 \
            -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp
MARCH_native = -march=native
MARCH_x86-64-v3 = -march=x86-64-v3
MARCH_x86-64-v4 = -march=x86-64-v4
MARCH_amx = -march=x86-64-v4 -mavx512bf16 -mamx-tile -mamx-bf16
MARCH_aarch64 = -march=armv8-a
LEVELS = $(if $(filter x86_64,$(shell uname -m)),x86-64-v3 x86-64-v4 amx,\
           $(filter aarch64,$(shell uname -m)))
LDLIBS = -ldnnl -fopenmp -lm -ldl

DIRS = base frontend ir passes codegen forecast report page compare autoplan driver
SRC = $(foreach d,$(DIRS),$(wildcard $(d)/*.c $(d)/*/*.c))
# Parts of the runtime that every target links.
RT_DIRS = $(filter-out runtime/cpu/ runtime/cuda/ runtime/mpi/, \
    $(wildcard runtime/*/))
RT_SHARED = $(wildcard $(addsuffix *.c,$(RT_DIRS)))
RT_SRC = $(RT_SHARED) $(wildcard runtime/cpu/*.c runtime/cpu/*/*.c)
RT_FILES = $(sort $(foreach t,c h cuh,$(wildcard \
             runtime/*.$(t) runtime/*/*.$(t) runtime/*/*/*.$(t))))
MACHINES = $(sort $(wildcard machines/*.json))
PAGE = $(sort $(wildcard page/web/*))
CUDA_SRC = $(RT_SHARED) $(wildcard runtime/cuda/*.c runtime/cuda/*/*.c)
CUDA_OBJ = $(CUDA_SRC:%.c=$(BUILD)/obj/%.o)
# Tests compare our declarations of CUDA with the toolkit's if it is installed.
CUDA_INCLUDE = $(wildcard /usr/local/cuda/include)
GEN = $(BUILD)/gen/frontend/syntax/parse.tab.c \
      $(BUILD)/gen/frontend/syntax/lex.yy.c \
      $(BUILD)/gen/prelude_text.c $(BUILD)/gen/runtime_text.c \
      $(BUILD)/gen/machines_text.c $(BUILD)/gen/calibrate_text.c \
      $(BUILD)/gen/page_text.c
# Programs for GPUs may run on another machine: no flags for this CPU.
PORTABLE_OBJ = $(CUDA_SRC:%.c=$(BUILD)/obj/portable/%.o)
HOST_OBJ = $(RT_SRC:%.c=$(BUILD)/obj/portable/%.o)
OBJ = $(SRC:%.c=$(BUILD)/obj/%.o) $(GEN:$(BUILD)/gen/%.c=$(BUILD)/obj/gen/%.o)
LIB_OBJ = $(filter-out $(BUILD)/obj/driver/main.o,$(OBJ))
# The check of the CPU level is compiled without -march, to run on every CPU.
CHECK_OBJ = $(BUILD)/obj/portable/runtime/cpu/rt_cpu_check.o
LEVEL_SRC = $(filter-out runtime/cpu/rt_cpu_check.c,$(RT_SRC))
RT_OBJ = $(LEVEL_SRC:%.c=$(BUILD)/obj/%.o)
LEVEL_LIB = $(LEVELS:%=$(BUILD)/libparc_rt.%.a)
LEVEL_OBJ = $(foreach l,$(LEVELS),$(LEVEL_SRC:%.c=$(BUILD)/obj/level/$(l)/%.o))

UNIT = $(shell grep -l '^int main' tests/unit/*.c 2>/dev/null)
# The interpreter, with which tests compare passes and programs, and functions
# that several tests use.
UNIT_LIB = $(filter-out $(UNIT),$(wildcard tests/unit/*.c)) \
           $(wildcard tests/interp/*.c)
UNIT_BIN = $(UNIT:tests/unit/%.c=$(BUILD)/unit/%)
UNIT_LIB_OBJ = $(UNIT_LIB:%.c=$(BUILD)/obj/%.o)

define compile
$(call say,CC,$<)
$(Q)mkdir -p $(@D)
$(Q)$(CC) $(CFLAGS) $(1) -MMD -MP -c -o $@ $<
endef
define archive
$(call say,AR,$@)
$(Q)rm -f $@ && ar qcs $@ $^
endef
define link
$(call say,LINK,$@)
$(Q)mkdir -p $(@D)
$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(1)
endef

.PHONY: all levels check check-all check-unit check-golden check-asan \
        check-cpu coverage fuzz curves resume dumps crash demo bench \
        forecast-fit bench-compile setup install uninstall clean lint
.SECONDARY:

# libparc_cuda.a, the CUDA runtime for this machine, is for tests. The libraries
# of levels are rebuilt if they exist.
all: $(BUILD)/parc $(BUILD)/libparc_rt.a $(BUILD)/libparc_rt_cuda.a \
     $(BUILD)/libparc_cuda.a $(wildcard $(LEVEL_LIB))

# The machine files, from tests/forecast/microbenchmarks.
forecast-fit:
	$(Q)python3 scripts/forecast_fit.py

# Installs missing packages; does nothing if none is missing.
setup:
	$(Q)sh scripts/setup.sh

# Without these libraries, each parc -o with a named --cpu compiles the runtime.
levels: $(LEVEL_LIB)

$(GEN) $(OBJ) $(RT_OBJ): | setup

$(BUILD)/parc: $(OBJ) $(BUILD)/obj/libparc_host.a
	$(call link,$(LDLIBS))

$(BUILD)/libparc_rt.a: $(RT_OBJ) $(CHECK_OBJ)
	$(archive)

$(BUILD)/obj/libparc_host.a: $(HOST_OBJ)
	$(archive)

define level_rules
$(BUILD)/libparc_rt.$(1).a: $(LEVEL_SRC:%.c=$(BUILD)/obj/level/$(1)/%.o) \
                            $(CHECK_OBJ)
	$$(archive)

$(BUILD)/obj/level/$(1)/%.o: %.c
	$$(call compile,$$(RT_CFLAGS) $(MARCH_$(1)))
endef
$(foreach l,$(LEVELS),$(eval $(call level_rules,$(l))))

$(BUILD)/libparc_rt_cuda.a: $(PORTABLE_OBJ)
	$(archive)

$(BUILD)/libparc_cuda.a: $(CUDA_OBJ)
	$(archive)

$(BUILD)/libparc.a: $(LIB_OBJ)
	$(Q)rm -f $@ && ar qcs $@ $^

# Without make's own rule, which overwrites frontend/syntax/parse.c after a change
# of parse.y.
%.c: %.y

$(BUILD)/gen/frontend/syntax/parse.tab.c: frontend/syntax/parse.y
	$(call say,BISON,$<)
	$(Q)mkdir -p $(@D)
	$(Q)bison -Wall -Wno-yacc -Wcounterexamples -Wno-other -d -o $@ $<

$(BUILD)/gen/frontend/syntax/lex.yy.c: frontend/syntax/lex.l \
                                       $(BUILD)/gen/frontend/syntax/parse.tab.c
	$(call say,FLEX,$<)
	$(Q)flex -o $@ --header-file=$(@:.c=.h) $<

$(BUILD)/gen/prelude_text.c: frontend/prelude.pdl scripts/embed.sh
	$(call say,EMBED,$<)
	$(Q)mkdir -p $(@D)
	$(Q)sh scripts/embed.sh --text prelude $< > $@

$(BUILD)/gen/runtime_text.c: $(RT_FILES) scripts/embed.sh
	$(call say,EMBED,runtime/)
	$(Q)mkdir -p $(@D)
	$(Q)sh scripts/embed.sh --files runtime $(RT_FILES) > $@

$(BUILD)/gen/calibrate_text.c: forecast/calibrate.pdl scripts/embed.sh
	$(call say,EMBED,$<)
	$(Q)mkdir -p $(@D)
	$(Q)sh scripts/embed.sh --text calibrate $< > $@

$(BUILD)/gen/page_text.c: $(PAGE) scripts/embed.sh
	$(call say,EMBED,page/web/)
	$(Q)mkdir -p $(@D)
	$(Q)sh scripts/embed.sh --files page $(PAGE) > $@

$(BUILD)/gen/machines_text.c: $(MACHINES) scripts/embed.sh
	$(call say,EMBED,machines/)
	$(Q)mkdir -p $(@D)
	$(Q)sh scripts/embed.sh --files machines $(MACHINES) > $@

$(BUILD)/obj/runtime/%.o: runtime/%.c
	$(call compile,$(RT_CFLAGS) $(MARCH_native))

$(BUILD)/obj/portable/%.o: %.c
	$(call compile,$(RT_CFLAGS))

# Sources that flex and bison generate cause warnings: compile without -W.
$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c
	$(call compile,$(filter-out -W%,$(PARC_CFLAGS)))

$(BUILD)/obj/frontend/%.o: frontend/%.c | $(GEN)
	$(call compile,$(PARC_CFLAGS))

$(BUILD)/obj/tests/unit/%.o: PARC_CFLAGS += -Iruntime
$(BUILD)/obj/tests/unit/attention_work.o: PARC_CFLAGS += -fopenmp
$(BUILD)/obj/tests/unit/cuda_%.o: PARC_CFLAGS += $(CUDA_INCLUDE:%=-isystem %)

$(BUILD)/obj/%.o: %.c
	$(call compile,$(PARC_CFLAGS))

$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(UNIT_LIB_OBJ) \
                 $(BUILD)/libparc.a $(BUILD)/libparc_rt.a
	$(call link,$(LDLIBS))

$(BUILD)/unit/cuda_%: $(BUILD)/obj/tests/unit/cuda_%.o $(BUILD)/libparc_cuda.a
	$(call link,-ldl -lm)

units: $(UNIT_BIN)

# Runs the tests whose result depends on the CPU (a line 'cpu: WHY' marks them)
# at the lowest level: programs, runtime and oneDNN's kernels use only its
# instructions.
CPU_LEVEL = $(firstword $(LEVELS))
CPU_TESTS = $(shell grep -lE '^(\#| \*) cpu: ' tests/unit/*.c)
CPU_BIN = $(CPU_TESTS:tests/unit/%.c=$(BUILD)/unit-$(CPU_LEVEL)/%)

$(BUILD)/unit-$(CPU_LEVEL)/%: $(BUILD)/obj/tests/unit/%.o $(UNIT_LIB_OBJ) \
                              $(BUILD)/libparc.a \
                              $(BUILD)/libparc_rt.$(CPU_LEVEL).a
	$(call link,$(LDLIBS))

check-cpu: all $(BUILD)/libparc_rt.$(CPU_LEVEL).a $(CPU_BIN)
	$(Q)BUILD=$(BUILD) CPU_LEVEL=$(CPU_LEVEL) sh tests/check.sh cpu

check: all levels units
	$(Q)BUILD=$(BUILD) sh tests/check.sh

check-all: all levels units $(CPU_BIN)
	$(Q)BUILD=$(BUILD) CPU_LEVEL=$(CPU_LEVEL) CHECK_ALL=1 \
	    sh tests/check.sh golden e2e unit cpu

# CHECK_ALL=1 make coverage: of check-all.
coverage:
	$(Q)BUILD=$(BUILD)/coverage sh tests/coverage.sh

check-golden: all
	$(Q)BUILD=$(BUILD) tests/run

check-unit: units
	$(Q)BUILD=$(BUILD) sh tests/check.sh unit

check-asan:
	$(Q)$(MAKE) BUILD=$(BUILD)/asan SANITIZE=1 CHECK_ASAN=1 check

# Fuzzes every reader of a file under sanitizers.
SECONDS ?= 600
SEED ?= $(shell date +%s)
fuzz:
	$(Q)$(MAKE) BUILD=$(BUILD)/asan SANITIZE=1 all $(BUILD)/asan/unit/fuzz
	$(Q)BUILD=$(BUILD)/asan $(BUILD)/asan/unit/fuzz --seconds $(SECONDS) \
	    --seed $(SEED)

curves: all
	$(Q)BUILD=$(BUILD) CURVES=all sh tests/e2e/curves.sh

resume: all
	$(Q)BUILD=$(BUILD) RESUME=all sh tests/e2e/resume.sh
	$(Q)BUILD=$(BUILD) RESUME=all sh tests/e2e/cuda_resume.sh

dumps: $(BUILD)/unit/dumps
	$(Q)CHECK_ALL=1 $(BUILD)/unit/dumps --sources

crash: all
	$(Q)BUILD=$(BUILD) CRASH=200 sh tests/e2e/crash.sh

demo: all
	$(Q)BUILD=$(BUILD) sh scripts/demo.sh

bench: all
	$(Q)BUILD=$(BUILD) sh tests/bench/run
	$(Q)BUILD=$(BUILD) sh tests/bench/checkpoint
	$(Q)BUILD=$(BUILD) sh tests/bench/data
	$(Q)BUILD=$(BUILD) sh tests/bench/pipeline
	$(Q)BUILD=$(BUILD) sh tests/bench/window
	$(Q)BUILD=$(BUILD) sh tests/bench/experts
	$(Q)BUILD=$(BUILD) sh tests/bench/planning
	$(Q)BUILD=$(BUILD) sh tests/bench/forecast
	$(Q)BUILD=$(BUILD) python3 tests/bench/plan_choice
	$(Q)BUILD=$(BUILD) $${TORCH_PYTHON:-python3} tests/bench/from_torch

bench-compile: all
	$(Q)BUILD=$(BUILD) sh tests/bench/compile_time
	$(Q)BUILD=$(BUILD) sh tests/bench/einsum

lint: $(BUILD)/parc
	$(Q)sh scripts/lint.sh

# parc prints parc.1 and the completion scripts from its option table.
$(BUILD)/share/%: $(BUILD)/parc
	$(Q)mkdir -p $(@D)
	$(Q)$(BUILD)/parc $(if $(filter parc.1,$*),--manual,--completion $*) > $@

INSTALL_DATA = install -m 644
share = $(DESTDIR)$(PREFIX)/share

install: all levels $(addprefix $(BUILD)/share/,parc.1 bash zsh fish)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/parc \
	    $(share)/parc/examples $(share)/parc/scripts \
	    $(share)/doc/parc $(share)/man/man1 \
	    $(share)/bash-completion/completions \
	    $(share)/zsh/site-functions $(share)/fish/vendor_completions.d
	install $(BUILD)/parc $(DESTDIR)$(PREFIX)/bin/parc
	$(INSTALL_DATA) $(BUILD)/libparc_rt.a $(BUILD)/libparc_rt_cuda.a \
	    $(LEVEL_LIB) $(DESTDIR)$(PREFIX)/lib/parc
	$(INSTALL_DATA) examples/*.pdl $(share)/parc/examples
	install scripts/parc-from-torch $(DESTDIR)$(PREFIX)/bin/parc-from-torch
	rm -rf $(share)/parc/python/parc_from_torch
	for file in python/parc_from_torch/*.py python/parc_from_torch/*/*.py; do \
	    $(INSTALL_DATA) -D $$file $(share)/parc/$$file || exit 1; \
	done
	install scripts/tokenize.py scripts/detokenize.py $(share)/parc/scripts
	$(INSTALL_DATA) README.md docs/*.md $(share)/doc/parc
	$(INSTALL_DATA) $(BUILD)/share/parc.1 $(share)/man/man1/parc.1
	$(INSTALL_DATA) $(BUILD)/share/bash \
	    $(share)/bash-completion/completions/parc
	$(INSTALL_DATA) $(BUILD)/share/zsh $(share)/zsh/site-functions/_parc
	$(INSTALL_DATA) $(BUILD)/share/fish \
	    $(share)/fish/vendor_completions.d/parc.fish

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/parc $(DESTDIR)$(PREFIX)/bin/parc-from-torch \
	    $(share)/man/man1/parc.1 \
	    $(share)/bash-completion/completions/parc \
	    $(share)/zsh/site-functions/_parc \
	    $(share)/fish/vendor_completions.d/parc.fish
	rm -rf $(DESTDIR)$(PREFIX)/lib/parc $(share)/parc $(share)/doc/parc

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d) $(RT_OBJ:.o=.d) $(CUDA_OBJ:.o=.d) $(PORTABLE_OBJ:.o=.d) $(HOST_OBJ:.o=.d) $(LEVEL_OBJ:.o=.d) $(wildcard $(BUILD)/obj/tests/*/*.d)
