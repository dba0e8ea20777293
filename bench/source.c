/* SPDX-License-Identifier: Apache-2.0 */
/* source BYTES: that many bytes on stdout, as fast as they are taken. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char block[128 * 1024];
	unsigned long long left = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;

	while (left > 0) {
		ssize_t n = write(STDOUT_FILENO, block, left < sizeof block ? left : sizeof block);
		if (n < 0)
			return 1;
		left -= (unsigned long long)n;
	}
	return 0;
}
