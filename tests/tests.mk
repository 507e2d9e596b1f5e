# ---- Pack: tools, replay of the fuzzers' corpora, the independent reader

$(O)/tests/tools/%: $(O)/tests/tools/%.o $(call archives,pack)
	@mkdir -p $(@D)
	$(link) $(call libraries,pack) $(LDFLAGS)

# A fuzz target under g++: each file of its corpus is run once.
$(O)/tests/fuzz/%_replay: $(O)/tests/fuzz/%_fuzz.o $(O)/tests/fuzz/replay.o $(call archives,pack)
	$(link) $(call libraries,pack) $(LDFLAGS)

.PHONY: check-corpus check-safetensors
check-corpus: $(O)/tests/fuzz/pack_replay
	$(O)/tests/fuzz/pack_replay tests/fuzz/corpus/pack

# build/venv is made from the package registry's safetensors and numpy (tests/python/venv).
check-safetensors: $(O)/tests/tools/make_pack
	tests/python/venv build/venv
	build/venv/bin/python tests/python/safetensors_test.py $(O)/tests/tools/make_pack
