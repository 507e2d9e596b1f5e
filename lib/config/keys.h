// The table of varde.yaml's keys: what the parser takes, what a refusal says, what `varde config` shows, and what
// conf/varde.yaml and varde.yaml(5) tell people come from here.
//
// A new key is a member of `config` with its default, and one entry in keys.cc; then `make config-pages` writes the two
// documents anew (tests/checks/config_pages refuses ones that differ).  A value is one scalar: several words stand on
// the key's line.
#pragma once

#include "base/result.h"
#include "config/config.h"

#include <span>
#include <string>
#include <string_view>

namespace varde {

// One kind of value.
struct value_rule {
    result<void> (*apply)(config& target, std::string_view text);  // the error says only what is wrong with the text
    std::string (*show)(const config& source);                     // as varde.yaml writes it
    std::string (*values)();                                       // what is right, for people: "1000 to 60000"
};

struct config_key {
    const char* section;
    const char* name;
    const char* unit;     // of the number ("milliseconds"); empty: `values` has it
    const char* example;  // a right value, shown when one is refused
    value_rule value;
    const char* meaning;           // sentences for conf/varde.yaml and varde.yaml(5)
    const char* option = nullptr;  // variable of the job's option that wins over it ("KEEP": --ckpt-keep)
};

struct config_section {
    const char* name;
    const char* meaning;  // may be empty
};

// In the order of the documents; the keys of a section are neighbours.
std::span<const config_section> config_sections() noexcept;
std::span<const config_key> config_keys() noexcept;

// "agent.memory"
std::string full_name(const config_key& key);

// "milliseconds, 10 to 60000"
std::string unit_and_values(const config_key& key);

}  // namespace varde
