// Places of packs as texts: what a link may say.
#include "store_support.h"

#include "store/place.h"

using namespace store_test;

namespace {

const std::string id(place_id_digits, 'a');
const std::string good = "/flash/1/varde-1000/" + id + "/step-000000000007.r2/node-00001-of-00004.safetensors";

}  // namespace

Test(place, text_and_parse_agree) {
    const std::optional<place> found = parse_place(good);
    cr_assert(found.has_value());
    cr_assert(found->mount == "/flash/1" && found->id == id && found->generation == id_of(7, 2));
    cr_assert(found->pack == "node-00001-of-00004.safetensors" && found->text() == good);
}

Test(place, any_other_text_is_none) {
    const std::string tail = "/varde-1000/" + id + "/step-000000000007.r2/node-00001-of-00004.safetensors";
    const std::vector<std::string> bad{
        "",
        "/",
        "//////",
        tail,
        "flash" + tail,
        "/flash/.." + tail,
        "/flash/../x" + tail,
        "/./flash" + tail,
        "/flash/" + tail,
        "//flash" + tail,
        good + "/",
        good + ".partial",
        good + "x",
        "/flash" + tail + "\n",
        "/f/varde-/" + id + "/step-000000000007.r2/node-00001-of-00004.safetensors",
        "/f/varde-4294967296/" + id + "/step-000000000007.r2/node-00001-of-00004.safetensors",
        "/f/varde-01000/" + id + "/step-000000000007.r2/node-00001-of-00004.safetensors",
        "/f/varde-1000/" + id.substr(1) + "/step-000000000007.r2/node-00001-of-00004.safetensors",
        "/f/varde-1000/" + id.substr(1) + "A/step-000000000007.r2/node-00001-of-00004.safetensors",
        "/f/varde-1000/" + id + "/step-7.r2/node-00001-of-00004.safetensors",
        "/f/varde-1000/" + id + "/../node-00001-of-00004.safetensors",
        "/f/varde-1000/" + id + "/step-000000000007.r2/node-00004-of-00004.safetensors",
        "/f/varde-1000/" + id + "/step-000000000007.r2/manifest.json",
        "/f/varde-1000/" + id + "/step-000000000007.r2//node-00001-of-00004.safetensors"};
    for (const std::string& text : bad) cr_assert(!parse_place(text), "%s", text.c_str());
}

Test(place, a_link_must_lead_to_its_own_pack) {
    const std::string name = "node-00001-of-00004.safetensors";
    need(parse_link(good, "p", {7, 2}, name, 1000));
    refused(parse_link(good, "p", {7, 2}, name, 1001), code::io, "is of user 1000");
    refused(parse_link(good, "p", {8, 2}, name, 1000), code::invalid, "no place of this pack");
    refused(parse_link(good, "p", {7, 2}, "node-00002-of-00004.safetensors", 1000), code::invalid, "is a link to");
    refused(parse_link("/etc/passwd", "p", {7, 2}, name, 1000), code::invalid, "/etc/passwd");
}

Test(place, owner_is_read_only_as_it_is_written) {
    const auto owner = parse_owner("12 /flash/a b/run\n");
    cr_assert(owner && owner->inode == 12 && owner->path == "/flash/a b/run");
    for (const char* text : {"", "\n", "12", "12 /a", "x /a\n", "-1 /a\n", " /a\n"})
        cr_assert(!parse_owner(text), "%s", text);
}
