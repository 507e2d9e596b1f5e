# Varde: checkpoints of large training jobs under Slurm.
#
#   make                build everything below build/release
#   make check          install what is missing, build, run every test
#   make demo           install what is missing, build, start a private 4-node Slurm, train, kill a node, restart
#   make unit           unit tests only, no root needed       (TEST=pack runs pack_test and pack_*_test)
#   make cluster        tests on a real Slurm of namespaced nodes, needs root   (TEST=10 runs tests/cluster/10-*.bats)
#   make python         tests with PyTorch, which packaging/setup-python fetches once for a machine
#   make recovery       every way a run stops, each on a cluster of its own, with its times   (RECOVERY="node hang")
#   make asan           unit tests with AddressSanitizer and UndefinedBehaviorSanitizer, in build/asan
#   make fuzz           grow the fuzzers' corpora for FUZZ_S seconds each (clang++)
#   make simulate       10,000 seeds of failures under a virtual clock, and what two node failures cost
#   make bench          figures of this machine, as ratios against fio and memcpy
#   make tidy           style, layers, clang-tidy, cppcheck, shellcheck, headers that compile alone
#   make format         clang-format over the sources
#   make install        into $(DESTDIR)$(PREFIX); make uninstall takes it away again
#   make deb            a package of Debian 12 in build/release/package; make rpm one for rpm's world
#   make clean          remove build/
#
# Variables: PREFIX (/usr/local)  libdir (PREFIX/lib)  DESTDIR
# SLURM_PREFIX (/usr: Slurm whose headers the plugin is built against)
# BUILD (release)  CXX  CC  CXXFLAGS LDFLAGS (come last)  W=1 (warnings are errors)  V=1 (show commands)  TEST  FUZZ_S

PREFIX       ?= /usr/local
SLURM_PREFIX ?= /usr
BUILD        ?= release
PKG_CONFIG   ?= pkg-config
FUZZ_S       ?= 60
CXX          := $(if $(filter default,$(origin CXX)),g++,$(CXX))
CC           := $(if $(filter default,$(origin CC)),gcc,$(CC))

bindir     := $(PREFIX)/bin
libdir     ?= $(PREFIX)/lib
plugindir  := $(PREFIX)/lib/varde
libexecdir := $(PREFIX)/libexec/varde
includedir := $(PREFIX)/include
mandir     := $(PREFIX)/share/man
sharedir   := $(PREFIX)/share/varde
unitdir    ?= $(PREFIX)/lib/systemd/system

O       := build/$(BUILD)
version := $(shell sed -n 's/^\#define VARDE_VERSION "\(.*\)"/\1/p' lib/include/varde.h)
comma   := ,

.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
ifndef V
quiet = @echo "  $(1)  $@";
endif

warnings := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion $(if $(W),-Werror)
hardening := -fstack-protector-strong $(if $(filter release,$(BUILD)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
optimise := -O2 -g
ifeq ($(BUILD),asan)
# Compiled in half the time of -O1; what runs longer for it mostly waits.
optimise := -O0 -g1 -fno-omit-frame-pointer
sanitize := -fsanitize=address,undefined -fno-sanitize-recover=all
endif
ifeq ($(BUILD),fuzz)
optimise := -O1 -g -fno-omit-frame-pointer
sanitize := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
$(O)/tests/fuzz/%_fuzz: ldflags += -fsanitize=fuzzer
endif
ifeq ($(BUILD),tsan)
optimise := -O1 -g
sanitize := -fsanitize=thread
endif
common   := $(optimise) $(warnings) $(hardening) $(sanitize) -fPIC -fvisibility=hidden -pthread -MMD -MP \
  -Ilib -Ilib/include -I.
cxxflags := -std=c++20 -fno-gnu-unique $(common)
cflags   := -std=gnu11 $(common)
ldflags  := $(sanitize) -pthread -Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now$(comma)--as-needed
# clang++ has no -fno-gnu-unique.
cxxflags := $(if $(findstring clang,$(CXX)),$(filter-out -fno-gnu-unique,$(cxxflags)),$(cxxflags))
test_cxxflags := $(filter-out -fvisibility=hidden -Wpedantic -Wconversion -Wsign-conversion,$(cxxflags))
# Unit tests are many, and assertions need no speed.
unit_cxxflags := $(patsubst -O2,-O1,$(patsubst -g,-g1,$(test_cxxflags)))
# Loops over floats; -O2 leaves most of them scalar.
cxxflags_lib_examples_train := -O3
# XXH3 is not ours to look into, and under the sanitizers the tests spent most of their time there.
cxxflags_lib_pack_checksum := -O2 -fno-sanitize=all

# What objects are made with, in a file that changes when it does: so they are made anew for other flags, wherever those
# come from, and for nothing else.
flags := $(filter-out -Werror,$(CXX) $(unit_cxxflags) $(cxxflags) $(cxxflags_lib_examples_train) \
  $(cxxflags_lib_pack_checksum) $(CXXFLAGS) $(CC) $(cflags) $(CFLAGS) $(SLURM_PREFIX) $(ldflags) $(LDFLAGS))
ifneq ($(flags),$(file <$(O)/flags))
$(shell mkdir -p $(O))$(file >$(O)/flags,$(flags))
endif

# ---- Libraries: one archive per folder of lib/, in the order of the layers (base first); main.cc stays out of them.
layers := base pack io arena topo gpu config store agent client cli
sources = $(filter-out %/main.cc,$(wildcard lib/$(1)/*.cc))
define archive
$(O)/lib$(1).a: $(patsubst %.cc,$(O)/%.o,$(call sources,$(1)))
endef
$(foreach layer,$(layers),$(eval $(call archive,$(layer))))
$(O)/lib%.a:
	@rm -f $@; mkdir -p $(@D)
	$(call quiet,AR   )$(AR) rcs $@ $(filter %.o,$^)

# What each layer links with, itself first.  tests/tidy holds the includes to the same order.
deps_base   := base
deps_pack   := pack base
deps_io     := io base
deps_arena  := arena pack base
deps_topo   := topo base
deps_gpu    := gpu base
deps_config := config base
deps_store  := store pack base
deps_agent  := agent store config io arena topo pack base
deps_client := client gpu arena pack base
deps_cli    := cli client agent config topo store gpu io arena pack base
deps_spank  := base
deps_prolog := config topo base
libs_pack   := -lxxhash
libs_io     := -luring
libs_topo   := $(shell $(PKG_CONFIG) --libs hwloc)
libs_config := -lyaml-cpp
libs_cli    := -lfmt
archives = $(foreach dep,$(deps_$(1)),$(O)/lib$(dep).a)
libraries = $(foreach dep,$(deps_$(1)),$(libs_$(dep)))

$(O)/%.o: %.cc $(O)/flags
	@mkdir -p $(@D)
	$(call quiet,CXX  )$(CXX) $(cxxflags) $(cxxflags_$(subst /,_,$*)) $(CXXFLAGS) -c $< -o $@
$(O)/%.o: %.c $(O)/flags
	@mkdir -p $(@D)
	$(call quiet,CC   )$(CC) $(cflags) $(CFLAGS) -c $< -o $@

link = $(call quiet,LINK )$(CXX) $(ldflags) -o $@ $(filter %.o %.a,$^)

# ---- Programs
programs := $(O)/bin/varde-agent $(O)/bin/varde $(O)/bin/varde-prolog $(O)/bin/varde-epilog $(O)/bin/varde-controller
shared   := $(O)/libvarde.so $(O)/spank_varde.so
examples := $(patsubst lib/examples/%.cc,$(O)/examples/%,$(wildcard lib/examples/*.cc))

.DEFAULT_GOAL := all
.PHONY: all
all: $(programs) $(shared) $(examples)

define program
$(O)/bin/$(1): $(2) $(call archives,$(3))
	@mkdir -p $$(@D)
	$$(link) $(call libraries,$(3)) $$(LDFLAGS)
endef
objects = $(patsubst %.cc,$(O)/%.o,$(filter-out %/main.cc,$(wildcard $(1)/*.cc)))
$(eval $(call program,varde-agent,$(O)/lib/agent/main.o,agent))
$(eval $(call program,varde,$(O)/lib/cli/main.o,cli))
$(eval $(call program,varde-prolog,$(O)/prolog/main.o $(call objects,prolog),prolog))
$(eval $(call program,varde-epilog,$(O)/epilog/main.o $(call objects,epilog) $(call objects,prolog),prolog))
controller_objects := $(O)/epilog/controller/main.o $(call objects,epilog/controller) $(call objects,prolog)
$(eval $(call program,varde-controller,$(controller_objects),prolog))

# The library that lives in the training process depends on libc alone; its exports are lib/client/varde.map.
# --gc-sections: parts of libstdc++ that nothing calls would ask for a newer libc than containers have (arc4random).
$(O)/libvarde.so: $(call archives,client) lib/client/varde.map
	@mkdir -p $(@D)
	$(call quiet,LINK )$(CXX) $(ldflags) -shared -static-libstdc++ -static-libgcc -Wl$(comma)-z$(comma)defs \
	  -Wl$(comma)--version-script=lib/client/varde.map -Wl$(comma)-soname=libvarde.so.0 -Wl$(comma)--gc-sections \
	  -Wl$(comma)--whole-archive $(O)/libclient.a -Wl$(comma)--no-whole-archive \
	  $(filter-out %/libclient.a,$(filter %.a,$^)) -o $@ \
	  $(if $(sanitize),-lxxhash,-l:libxxhash.a) $(LDFLAGS)
	@ln -sf libvarde.so $(O)/libvarde.so.0

# The plugin's symbols come from sbatch, srun and slurmd: no -z defs, no libslurm (its ABI changes with each release).
$(O)/spank/%.o: cflags += -isystem $(SLURM_PREFIX)/include
$(O)/spank_varde.so: $(O)/spank/plugin.o $(call objects,spank) $(call archives,spank) spank/spank.map
	$(call quiet,LINK )$(CXX) $(ldflags) -shared -static-libstdc++ -static-libgcc \
	  -Wl$(comma)--version-script=spank/spank.map -o $@ $(filter %.o %.a,$^) $(LDFLAGS)

$(O)/examples/%: $(O)/lib/examples/%.o $(O)/libvarde.so
	@mkdir -p $(@D)
	$(call quiet,LINK )$(CXX) $(ldflags) -o $@ $< -L$(O) -lvarde \
	  -Wl$(comma)-rpath$(comma)'$$ORIGIN/..:$$ORIGIN/../../../lib' $(LDFLAGS)

# ---- Unit tests: tests/unit/LAYER_test.cc and LAYER_topic_test.cc link with LAYER
unit_sources := $(wildcard tests/unit/*_test.cc)
unit_tests   := $(patsubst tests/unit/%.cc,$(O)/tests/unit/%,$(unit_sources))
layer_of = $(firstword $(subst _, ,$(1)))
$(O)/tests/%.o: cxxflags := $(test_cxxflags)
$(O)/tests/unit/%.o: cxxflags := $(unit_cxxflags)
# Under the sanitizers: these walk through every bit of a pack.
$(O)/lib/pack/%.o: cxxflags := $(patsubst -O0,-O1,$(cxxflags))
$(O)/tests/unit/pack_%.o: cxxflags := $(patsubst -O0,-O1,$(unit_cxxflags))
# Programs outside lib/ are no archives: their objects come first, so that the archives resolve what they need.
test_objects_spank  := $(call objects,spank)
test_objects_prolog := $(call objects,prolog) $(call objects,epilog) $(call objects,epilog/controller)
define unit_test
$(O)/tests/unit/$(1): $(O)/tests/unit/$(1).o $(O)/tests/unit/main.o $(test_objects_$(call layer_of,$(1))) \
  $(call archives,$(call layer_of,$(1)))
	$$(link) -lcriterion $(call libraries,$(call layer_of,$(1))) $$(LDFLAGS)
endef
$(foreach source,$(unit_sources),$(eval $(call unit_test,$(basename $(notdir $(source))))))
$(O)/tests/unit/cli_doctor_test: | $(O)/spank_varde.so

-include tests/tests.mk packaging/packaging.mk
-include $(shell test -d $(O) && find $(O) -name '*.d')

.PHONY: format clean
format:
	clang-format -i $(shell git ls-files '*.cc' '*.h' '*.c')
clean:
	rm -rf build
