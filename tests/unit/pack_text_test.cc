// Texts: what is UTF-8, and what a message may show of a hostile name.
#include "pack/text.h"

#include <criterion/criterion.h>

using namespace varde::pack;

Test(pack_text, accepts_every_kind_of_utf8) {
    for (const char* text : {"", "plain", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbf",
                             "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
        cr_expect(valid_utf8(text), "%s", text);
}

Test(pack_text, refuses_what_is_not_utf8) {
    // Lone and missing continuations, overlong forms, surrogates, beyond U+10FFFF, bytes that never occur.
    for (const char* text :
         {"\x80", "a\xc3", "\xe2\x82", "\xf0\x9f\x97", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
          "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2\x28\xa1"})
        cr_expect(not valid_utf8(text), "%s", in_quotes(text).c_str());
}

Test(pack_text, shows_no_control_byte) {
    cr_expect(in_quotes("a\x1b[2Jb\n\x7f\xc2\x9b\xff\xc3\xa9") == "'a\\x1b[2Jb\\x0a\\x7f\\xc2\\x9b\\xff\xc3\xa9'");
}

Test(pack_text, cuts_long_names_at_a_character) {
    cr_expect(in_quotes("abc\xc3\xa9", 4) == "'abc...'");
    cr_expect(in_quotes("abc\xc3\xa9", 5) == "'abc\xc3\xa9'");
}

Test(pack_text, escapes_for_json) {
    std::string text;
    append_json_string(text, std::string("q\"b\\n\n\x01/\xf0\x9f\x97\xbf"));
    cr_expect(text == "\"q\\\"b\\\\n\\u000a\\u0001/\xf0\x9f\x97\xbf\"", "%s", text.c_str());
}
