# perl forks and matches
# needs: perl
perl -e 'my $p = fork // die; if (!$p) { exit 3 } waitpid $p, 0; exit(($? >> 8) == 3 && "abc" =~ /b/ ? 0 : 1)'
