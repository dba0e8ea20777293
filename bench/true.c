/* SPDX-License-Identifier: Apache-2.0 */
/* The least a program can do: what is measured is the way there and back. */
int main(void)
{
	return 0;
}
