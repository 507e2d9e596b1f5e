# What `make check` and its parts run.  tests/run counts and sums up; tests/README.md says how to run one test alone.

.PHONY: check setup unit checks cluster demo asan fuzz bench
fuzzers := $(patsubst tests/fuzz/%_fuzz.cc,%,$(wildcard tests/fuzz/*_fuzz.cc))
replays := $(patsubst %,$(O)/tests/fuzz/%_replay,$(fuzzers))
test_tools := $(patsubst tests/tools/%.cc,$(O)/tests/tools/%,$(wildcard tests/tools/*.cc))

setup:
	@packaging/setup build test demo

check: setup
	+@$(MAKE) --no-print-directory tidy all $(unit_tests) $(replays) $(test_tools)
	+@$(MAKE) --no-print-directory BUILD=asan sanitized
	@tests/run $(O) unit checks cluster

unit: all $(unit_tests)
	@tests/run $(O) unit
checks: all $(replays) $(test_tools)
	@tests/run $(O) checks
cluster: all $(test_tools)
	@tests/run $(O) cluster

# Unit tests and corpora under AddressSanitizer and UndefinedBehaviorSanitizer.  abort_on_error: Criterion hides an exit status, not a signal.
asan: setup
	+@$(MAKE) --no-print-directory BUILD=asan sanitized
.PHONY: sanitized
sanitized: all $(unit_tests) $(replays)
	@ASAN_OPTIONS=abort_on_error=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 tests/run $(O) unit

demo:
	@packaging/setup build demo
	+@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/demo

fuzz: setup
	+@$(MAKE) --no-print-directory CXX=clang++ BUILD=fuzz FUZZ_S=$(FUZZ_S) $(patsubst %,fuzz-%,$(fuzzers))
fuzz-%: $(O)/tests/fuzz/%_fuzz
	$(O)/tests/fuzz/$*_fuzz -max_total_time=$(FUZZ_S) -timeout=10 -rss_limit_mb=2048 tests/fuzz/corpus/$*

bench: setup
	+@$(MAKE) --no-print-directory all $(O)/tests/bench/bench
	@$(O)/tests/bench/bench

# ---- Fuzzers: the layer that each target links with
fuzz_layer_pack     := pack
fuzz_layer_store    := store
fuzz_layer_protocol := arena
define fuzz_target
$(O)/tests/fuzz/$(1)_replay: $(O)/tests/fuzz/$(1)_fuzz.o $(O)/tests/fuzz/replay.o $(call archives,$(fuzz_layer_$(1)))
	$$(link) $(call libraries,$(fuzz_layer_$(1))) $$(LDFLAGS)
$(O)/tests/fuzz/$(1)_fuzz: $(O)/tests/fuzz/$(1)_fuzz.o $(call archives,$(fuzz_layer_$(1)))
	$$(link) $(call libraries,$(fuzz_layer_$(1))) $$(LDFLAGS)
endef
$(foreach name,$(fuzzers),$(eval $(call fuzz_target,$(name))))

# ---- Tools of tests: programs that make packs or play ranks
$(O)/tests/tools/%: $(O)/tests/tools/%.o $(call archives,pack)
	@mkdir -p $(@D)
	$(link) $(call libraries,pack) $(LDFLAGS)
