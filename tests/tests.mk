# What `make check` and its parts run.  tests/run counts and sums up; tests/README.md says how to run one test alone.

.PHONY: check setup unit checks python cluster recovery demo asan fuzz bench
fuzzers := $(patsubst tests/fuzz/%_fuzz.cc,%,$(wildcard tests/fuzz/*_fuzz.cc))
replays := $(patsubst %,$(O)/tests/fuzz/%_replay,$(fuzzers))
pack_tests = $(filter $(O)/tests/unit/pack_%,$(unit_tests))
test_tools := $(patsubst tests/tools/%.cc,$(O)/tests/tools/%,$(wildcard tests/tools/*.cc)) $(O)/tests/simulate/simulate

# Builds use all cores, unless the caller's -j says otherwise.
parallel = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

setup:
	@packaging/setup

# Unit tests are built and run once, with sanitizers, because a release build of all would take CI too long; those of
# the pack twice, because the largest are left out there.
check: setup
	+@$(MAKE) --no-print-directory $(parallel) W=1 all $(replays) $(test_tools) $(pack_tests)
	+@$(MAKE) --no-print-directory $(parallel) tidy
	+@$(MAKE) --no-print-directory $(parallel) BUILD=asan sanitized
	@TEST=pack tests/run $(O) unit
	@tests/run $(O) cluster python checks

unit: all $(unit_tests)
	@tests/run $(O) unit
checks: all $(replays) $(test_tools)
	@tests/run $(O) checks
python: all $(test_tools)
	@tests/run $(O) python
cluster: all $(test_tools)
	@tests/run $(O) cluster

# Unit tests and corpora under AddressSanitizer and UndefinedBehaviorSanitizer.  abort_on_error: Criterion hides an exit
# status, not a signal.
asan: setup
	+@$(MAKE) --no-print-directory $(parallel) BUILD=asan sanitized
.PHONY: sanitized
sanitized: all $(unit_tests) $(replays)
	@export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1; \
	  tests/run $(O) unit && TEST=corpus tests/run $(O) checks

# RECOVERY="node ranks" runs these cases; else all of them, and a restart that takes longer than its goal is a failure.
recovery: setup
	+@$(MAKE) --no-print-directory $(parallel) all
	@VARDE_BUILD=$(O) tests/cluster/recovery $(or $(RECOVERY),--goals)

demo:
	@packaging/setup build demo
	+@$(MAKE) --no-print-directory $(parallel) all
	@BUILD=$(BUILD) tests/demo

fuzz: setup
	+@$(MAKE) --no-print-directory CXX=clang++ BUILD=fuzz FUZZ_S=$(FUZZ_S) $(patsubst %,fuzz-%,$(fuzzers))
fuzz-%: $(O)/tests/fuzz/%_fuzz
	$(O)/tests/fuzz/$*_fuzz -max_total_time=$(FUZZ_S) -timeout=10 -rss_limit_mb=2048 tests/fuzz/corpus/$*

# Ends with 1 where a goal is missed.  BENCH="--pairs 15 write_vs_fio" asks for what bench.cc says.
bench: setup
	+@$(MAKE) --no-print-directory $(parallel) all $(O)/tests/bench/bench
	@status=0; $(O)/tests/bench/bench $(BENCH) || status=1; tests/bench/node_hooks $(O) || status=1; exit $$status
bench_objects := $(patsubst %.cc,$(O)/%.o,$(wildcard tests/bench/*.cc))
$(O)/tests/bench/bench: $(bench_objects) $(call archives,agent) $(O)/libvarde.so
	@mkdir -p $(@D)
	$(link) $(call libraries,agent) -L$(O) -lvarde -Wl$(comma)-rpath$(comma)'$$ORIGIN/../..' $(LDFLAGS)

# ---- Fuzzers: the layer that each target links with
fuzz_layer_pack     := pack
fuzz_layer_store    := store
fuzz_layer_protocol := arena
fuzz_layer_plan     := topo
fuzz_layer_mounts   := prolog
fuzz_objects_mounts := $(O)/prolog/mount_table.o $(O)/prolog/storage_servers.o
fuzz_layer_config   := config
fuzz_layer_prolog   := prolog
fuzz_objects_prolog := $(call objects,prolog)
fuzz_layer_controller   := prolog
fuzz_objects_controller := $(O)/epilog/controller/slurm_tools.o
define fuzz_target
$(O)/tests/fuzz/$(1)_replay: $(O)/tests/fuzz/$(1)_fuzz.o $(O)/tests/fuzz/replay.o $(fuzz_objects_$(1)) \
  $(call archives,$(fuzz_layer_$(1)))
	$$(link) $(call libraries,$(fuzz_layer_$(1))) $$(LDFLAGS)
$(O)/tests/fuzz/$(1)_fuzz: $(O)/tests/fuzz/$(1)_fuzz.o $(fuzz_objects_$(1)) $(call archives,$(fuzz_layer_$(1)))
	$$(link) $(call libraries,$(fuzz_layer_$(1))) $$(LDFLAGS)
endef
$(foreach name,$(fuzzers),$(eval $(call fuzz_target,$(name))))

# ---- The simulated CUDA driver: libraries with the real one's name, which tests with GPU memory open by their paths
sim_drivers := $(O)/tests/gpu/libcuda.so.1 $(O)/tests/gpu/old/libcuda.so.1
$(O)/tests/gpu/libcuda.so.1: $(patsubst %.cc,$(O)/%.o,$(wildcard tests/gpu/sim*.cc))
$(O)/tests/gpu/old/libcuda.so.1: $(O)/tests/gpu/old_driver.o
$(sim_drivers):
	@mkdir -p $(@D)
	$(call quiet,LINK )$(CXX) $(ldflags) -shared -Wl$(comma)-soname=libcuda.so.1 -o $@ $^ $(LDFLAGS)
$(filter %/gpu_driver_test %/client_gpu_test %/client_gpu_faults_test,$(unit_tests)): | $(sim_drivers)
$(O)/tests/tools/ranks $(O)/tests/tsan/client_gpu_tsan: | $(sim_drivers)

# ---- Tools of tests: programs that make packs or play ranks
$(O)/tests/tools/%: $(O)/tests/tools/%.o $(call archives,pack)
	@mkdir -p $(@D)
	$(link) $(call libraries,pack) $(LDFLAGS)
$(O)/tests/tools/config_pages: $(O)/tests/tools/%: $(O)/tests/tools/%.o $(call archives,config)
	@mkdir -p $(@D)
	$(link) $(call libraries,config) $(LDFLAGS)
# Ranks as a training program is: with the library alone.
library_tools := ranks rounds killed_after_fence
$(library_tools:%=$(O)/tests/tools/%): $(O)/tests/tools/%: $(O)/tests/tools/%.o $(O)/libvarde.so
	@mkdir -p $(@D)
	$(call quiet,LINK )$(CXX) $(ldflags) -o $@ $< -L$(O) -lvarde -Wl$(comma)-rpath$(comma)'$$ORIGIN/../..' $(LDFLAGS)

# The documents of varde.yaml, from the parser's own table.
.PHONY: config-pages
config-pages: $(O)/tests/tools/config_pages
	@$< conf/varde.yaml packaging/man/varde.yaml.5

# ---- Style.  A stamp per file, made again when the file or a header of its changes; no objects: it runs beside a build
.PHONY: tidy tidy-parts tidy-style tidy-cppcheck
product_sources := $(wildcard lib/*/*.cc spank/*.cc spank/*.c prolog/*.cc epilog/*.cc epilog/*/*.cc)
all_headers := $(wildcard lib/*/*.h lib/examples/*/*.h spank/*.h prolog/*.h epilog/*.h epilog/*/*.h tests/*/*.h)
# A header that is the first that its own source file includes is compiled alone there.
own_headers := $(shell grep -m1 -H '^\#include' $(product_sources) | \
  sed -n 's|^\(lib/\)\{0,1\}\(.*\)\.cc:\#include "\2\.h"$$|\1\2.h|p')
other_headers = $(filter-out $(own_headers),$(all_headers))
includes := -Ilib -Ilib/include -I.
# The analyzer follows calls only into small functions: a third of the time.  DEEP=1 follows them all.
analyzer := $(if $(DEEP),,-Xclang -analyzer-config -Xclang mode=shallow)

tidy:
	+@$(MAKE) --no-print-directory $(parallel) tidy-parts
tidy-parts: tidy-style tidy-cppcheck $(other_headers:%=$(O)/headers/%.ok) $(product_sources:%=$(O)/tidy/%.ok)

tidy-style:
	@tests/tidy --self-test
	@tests/tidy

# clang-tidy's "N warnings generated" on stderr counts those in system headers: shown only where something is wrong.
define clang_tidy
	@mkdir -p $(@D); $(1) $(includes) -MM -MP -MF $@.d -MT $@ $<
	$(call quiet,TIDY )clang-tidy --quiet $< -- $(2) $(includes) $(analyzer) 2>$@.log || { cat $@.log; exit 1; }
	@touch $@
endef
$(O)/tidy/%.cc.ok: %.cc .clang-tidy
	$(call clang_tidy,$(CXX) -std=c++20,-std=c++20)
$(O)/tidy/%.c.ok: %.c .clang-tidy
	$(call clang_tidy,$(CC) -isystem $(SLURM_PREFIX)/include,-std=gnu11 -isystem $(SLURM_PREFIX)/include)

# Each header alone, as the first that a file includes; those with a guard instead of #pragma once are for C as well.
$(O)/headers/tests/%.ok: cxxflags := $(filter-out -Wpedantic -Wconversion -Wsign-conversion,$(cxxflags))
$(O)/headers/%.h.ok: %.h
	@mkdir -p $(@D)
	$(call quiet,ALONE)echo '#include "$<"' | $(CXX) $(cxxflags) -Werror -fsyntax-only -MF $@.d -MT $@ -x c++ -
	@grep -q '^#pragma once' $< || echo '#include "$<"' | \
	  $(CC) $(filter-out -std=% -MMD -MP,$(cflags)) -std=c99 -Werror -fsyntax-only -x c -
	@touch $@

tidy-cppcheck:
	@mkdir -p $(O)/tidy/cppcheck
	$(call quiet,CPPCHECK)cppcheck --quiet -j$(shell nproc) --cppcheck-build-dir=$(O)/tidy/cppcheck --error-exitcode=1 \
	  --std=c++20 --std=c11 --library=posix --enable=warning,performance,portability,style --inline-suppr \
	  --suppressions-list=tests/cppcheck.txt --template='{file}:{line}: {severity}: {message} [{id}]' \
	  '-DSPANK_PLUGIN(name,version)=' $(includes) lib spank prolog epilog

# ---- ThreadSanitizer: plain programs, because Criterion does not start under it.  tests/tsan/LAYER_topic.cc links with
# LAYER.
tsan_tests := $(patsubst tests/tsan/%.cc,$(O)/tests/tsan/%,$(wildcard tests/tsan/*.cc))
define tsan_test
$(O)/tests/tsan/$(1): $(O)/tests/tsan/$(1).o $(call archives,$(call layer_of,$(1)))
	$$(link) $(call libraries,$(call layer_of,$(1))) $$(LDFLAGS)
endef
$(foreach name,$(notdir $(tsan_tests)),$(eval $(call tsan_test,$(name))))
.PHONY: tsan run-tsan
tsan:
	+@$(MAKE) --no-print-directory BUILD=tsan run-tsan
run-tsan: $(tsan_tests)
	@set -e; for program in $(tsan_tests); do TSAN_OPTIONS=halt_on_error=1 $$program; done

# ---- The simulation: production's decisions under a virtual clock.  `make simulate` plays all seeds, some minutes
.PHONY: simulate
simulate: $(O)/tests/simulate/simulate
	@$< --seeds 1-10000 --reference 100
$(O)/tests/simulate/simulate: $(patsubst %.cc,$(O)/%.o,$(wildcard tests/simulate/*.cc)) $(call archives,agent)
	@mkdir -p $(@D)
	$(link) $(call libraries,agent) $(LDFLAGS)
