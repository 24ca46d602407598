#include "task/signature.h"
#include <criterion/criterion.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* The bytes 0, 1, 2, ... in base64, by number of bytes. */
#define KEY_8 "AAECAwQFBgc="
#define KEY_23 "AAECAwQFBgcICQoLDA0ODxAREhMUFRY="
#define KEY_24 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
#define KEY_32 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define KEY_64 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=="
#define KEY_65 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A="
#define KEY_66 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0BB"
#define SIGNATURE_24 "v1,upoSRLbcju25ljklaY4M9Tn8f49RUdDQs88r1EQtKgc="
#define SIGNATURE_32 "v1,zCzBmGHczoaPA3mnr8TeJYQbhIBL1DF94GXJ1ZOqcJU="
#define SIGNATURE_64 "v1,7F6CufNjigAXgbHHBC7G1ByCP6esmdrcT6i7ZlMCBNo="

static struct signature_secrets secrets(const char *text)
{
    struct signature_secrets s;
    size_t bad = 0;

    cr_assert_eq(signature_secrets_parse(text, &s, &bad), ERR_OK, "secret %zu", bad);
    return s;
}

Test(signature, good_secrets_become_their_bytes)
{
    static const struct {
        const char *text;
        size_t count;
        size_t first_key_bytes;
    } rows[] = {
        {"", 0, 0},
        {" ,\n", 0, 0},
        {"whsec_" KEY_24, 1, 24},
        {"whsec_" KEY_32, 1, 32},
        {"whsec_" KEY_64, 1, 64},
        {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", 1, 32}, /* without padding */
        {"whsec_" KEY_24 "\n", 1, 24},
        {"whsec_" KEY_24 "\r\n", 1, 24},
        {" whsec_" KEY_24 " ", 1, 24},
        {"whsec_" KEY_24 ",whsec_" KEY_32, 2, 24},
        {"whsec_" KEY_64 "\nwhsec_" KEY_32 "\n", 2, 64},
        {",,whsec_" KEY_24 ", \t whsec_" KEY_32 ",", 2, 24},
        {"whsec_" KEY_24 " whsec_" KEY_24 " whsec_" KEY_24 " whsec_" KEY_24 " whsec_" KEY_24 " whsec_" KEY_32, 6, 24},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct signature_secrets s = secrets(rows[i].text);

        cr_expect_eq(s.count, rows[i].count, "row %zu", i);
        cr_expect(s.count == 0 || s.items[0].key_bytes == rows[i].first_key_bytes, "row %zu", i);
        for (size_t b = 0; s.count > 0 && b < s.items[0].key_bytes; b++)
            cr_expect_eq(s.items[0].key[b], b, "row %zu", i);
        signature_secrets_deinit(&s);
    }
}

Test(signature, wrong_secrets_are_refused_by_their_position)
{
    static const struct {
        const char *text;
        size_t bad;
    } rows[] = {
        {KEY_24, 1},          /* no prefix */
        {"WHSEC_" KEY_24, 1}, /* the prefix is in lower case */
        {"whsec_", 1},        /* empty */
        {"whsec_" KEY_8, 1},  /* short */
        {"whsec_" KEY_23, 1},
        {"whsec_" KEY_65, 1}, /* long */
        {"whsec_" KEY_66, 1},
        {"whsec_" KEY_64 "AAAA", 1},
        {"v1,whsec_" KEY_24, 1},                                /* "v1" is one of two */
        {"whsec_-__--_-__--_-__--_-__--_-__--_-__--_-_-8=", 1}, /* the alphabet of URLs */
        {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8==", 1},
        {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXG", 1},
        {"whsec_not base64 at all", 1},
        {"whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", 1},
        {"whsec_====", 1},
        {"whsec_" KEY_24 ",nonsense", 2},
        {"whsec_" KEY_24 " whsec_" KEY_24 "\nwhsec_" KEY_8, 3},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct signature_secrets s = {.count = 99};
        size_t bad = 0;

        cr_expect_eq(signature_secrets_parse(rows[i].text, &s, &bad), ERR_INVALID, "row %zu", i);
        cr_expect_eq(bad, rows[i].bad, "row %zu", i);
        cr_expect_eq(s.count, 0, "row %zu", i);
        cr_expect_null(s.items, "row %zu", i);
    }
}

Test(signature, signatures_are_those_of_the_specification)
{
    static const struct {
        const char *secrets;
        const char *id;
        int64_t timestamp_s;
        const char *body;
        const char *signature;
    } rows[] = {
        /* the example of the Standard Webhooks libraries */
        {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, "{\"test\": 2432232314}",
         "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        {"whsec_" KEY_24, "task-1", 1700000000, "", SIGNATURE_24},
        {"whsec_" KEY_32, "task-1", 1700000000, "", SIGNATURE_32},
        {"whsec_" KEY_64, "task-1", 1700000000, "", SIGNATURE_64},
        {"whsec_" KEY_24 ",whsec_" KEY_32, "task-1", 1700000000, "", SIGNATURE_24 " " SIGNATURE_32},
        {"", "task-1", 1700000000, "", ""},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct signature_secrets s = secrets(rows[i].secrets);
        struct buf out;

        buf_init(&out, 4096);
        signature_sign(&out, &s, rows[i].id, rows[i].timestamp_s, rows[i].body, strlen(rows[i].body));
        cr_expect_eq(buf_status(&out), ERR_OK);
        cr_expect_str_eq(out.data ? out.data : "", rows[i].signature, "row %zu", i);
        buf_deinit(&out);
        signature_secrets_deinit(&s);
    }
}

Test(signature, a_body_may_be_missing_or_hold_any_bytes)
{
    struct signature_secrets s = secrets("whsec_" KEY_32);
    static const char body[] = {0, '\n', (char)0xff, 0};
    struct buf out;

    buf_init(&out, 4096);
    signature_sign(&out, &s, "task-1", 1700000000, NULL, 0);
    cr_expect_str_eq(out.data, SIGNATURE_32);
    buf_clear(&out);
    signature_sign(&out, &s, "task-1", 1700000000, body, sizeof(body));
    cr_expect(signature_verify(&s, out.data, "task-1", "1700000000", body, sizeof(body)));
    cr_expect_not(signature_verify(&s, out.data, "task-1", "1700000000", body, sizeof(body) - 1));
    buf_deinit(&out);
    signature_secrets_deinit(&s);
}

Test(signature, one_right_entry_is_enough)
{
    static const struct {
        const char *secrets;
        const char *header;
        bool is_right;
    } rows[] = {
        {"whsec_" KEY_24, SIGNATURE_24, true},
        {"whsec_" KEY_24, SIGNATURE_32 " " SIGNATURE_24, true}, /* during a rotation */
        {"whsec_" KEY_32 ",whsec_" KEY_24, SIGNATURE_24, true},
        {"whsec_" KEY_24, "v1a,abcd " SIGNATURE_24, true}, /* other schemes are passed over */
        {"whsec_" KEY_24, "  " SIGNATURE_24 "  ", true},
        {"whsec_" KEY_24, "v1,short v1, , " SIGNATURE_24, true},
        {"whsec_" KEY_24, SIGNATURE_32, false},
        {"whsec_" KEY_24, "", false},
        {"whsec_" KEY_24, "v1,", false},
        {"whsec_" KEY_24, "upoSRLbcju25ljklaY4M9Tn8f49RUdDQs88r1EQtKgc=", false},
        {"whsec_" KEY_24, "v2,upoSRLbcju25ljklaY4M9Tn8f49RUdDQs88r1EQtKgc=", false},
        {"whsec_" KEY_24, "V1,upoSRLbcju25ljklaY4M9Tn8f49RUdDQs88r1EQtKgc=", false},
        {"whsec_" KEY_24, "v1,upoSRLbcju25ljklaY4M9Tn8f49RUdDQs88r1EQtKgc", false},
        {"whsec_" KEY_24, "v1,upoSRLbcju25ljklaY4M9Tn8f49RUdDQs88r1EQtKgcA", false},
        {"whsec_" KEY_24, SIGNATURE_24 SIGNATURE_24, false},
        {"whsec_" KEY_24, SIGNATURE_24 ",", false},
        {"", SIGNATURE_24, false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct signature_secrets s = secrets(rows[i].secrets);

        cr_expect_eq(signature_verify(&s, rows[i].header, "task-1", "1700000000", "", 0), rows[i].is_right, "row %zu",
                     i);
        signature_secrets_deinit(&s);
    }
}

Test(signature, every_signed_part_counts)
{
    struct signature_secrets s = secrets("whsec_" KEY_24);

    cr_expect(signature_verify(&s, SIGNATURE_24, "task-1", "1700000000", "", 0));
    cr_expect_not(signature_verify(&s, SIGNATURE_24, "task-2", "1700000000", "", 0));
    cr_expect_not(signature_verify(&s, SIGNATURE_24, "task-1", "1700000001", "", 0));
    cr_expect_not(signature_verify(&s, SIGNATURE_24, "task-1", "01700000000", "", 0));
    cr_expect_not(signature_verify(&s, SIGNATURE_24, "task-1", "1700000000", "x", 1));
    signature_secrets_deinit(&s);
}

Test(signature, keys_are_wiped_with_the_list)
{
    struct signature_secrets s = secrets("whsec_" KEY_24);

    signature_secrets_deinit(&s);
    cr_expect_null(s.items);
    cr_expect_eq(s.count, 0);
    signature_secrets_deinit(&s);
}

Test(signature, the_digest_is_the_beginning_of_sha_256)
{
    static const unsigned char of_nothing[16] = {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14,
                                                 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24};
    static const unsigned char of_abc[16] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                             0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23};
    unsigned char digest[16];

    signature_digest("", 0, digest);
    cr_expect_arr_eq(digest, of_nothing, 16);
    signature_digest("abc", 3, digest);
    cr_expect_arr_eq(digest, of_abc, 16);
}

Test(signature, secrets_are_equal_when_all_bytes_are)
{
    cr_expect(signature_equal("", 0, "", 0));
    cr_expect(signature_equal("token", 5, "token", 5));
    cr_expect(signature_equal("token1", 5, "token2", 5));
    cr_expect_not(signature_equal("token", 5, "Token", 5));
    cr_expect_not(signature_equal("token", 5, "tokeN", 5));
    cr_expect_not(signature_equal("token", 5, "token", 4));
    cr_expect_not(signature_equal("", 0, "x", 1));
}
