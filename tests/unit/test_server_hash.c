/* SPDX-License-Identifier: Apache-2.0 */
#include "server/hash.h"
#include "test.h"

static const char *hex(const uint8_t *p)
{
	static char text[65];

	hash_hex(p, HASH_BYTES, text);
	return text;
}

TEST(digests_are_those_of_the_standards)
{
	uint8_t out[HASH_BYTES];

	hash_sha256("abc", 3, out);
	ASSERT_STR(hex(out), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	/* RFC 4231, cases 2 and 4 */
	hash_hmac("Jefe", 4, "what do ya want for nothing?", 28, out);
	ASSERT_STR(hex(out), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	uint8_t key[25], data[50];
	for (uint8_t i = 0; i < sizeof key; i++)
		key[i] = (uint8_t)(i + 1);
	memset(data, 0xcd, sizeof data);
	hash_hmac(key, sizeof key, data, sizeof data, out);
	ASSERT_STR(hex(out), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

TEST(random_bytes_differ)
{
	uint8_t a[32] = {0}, b[32] = {0};

	ASSERT_OK(hash_random(a, sizeof a));
	ASSERT_OK(hash_random(b, sizeof b));
	ASSERT(!hash_is_equal(a, b, sizeof a));
	ASSERT(hash_is_equal(a, a, sizeof a));
}
