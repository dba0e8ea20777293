# java compiles and runs threads
# needs: java javac
java -version
printf 'public class A { public static void main(String[] a) throws Exception { int[] n = {0}; Thread[] t = new Thread[8]; for (int i = 0; i < 8; i++) { t[i] = new Thread(() -> { synchronized (n) { n[0]++; } }); t[i].start(); } for (Thread x : t) x.join(); System.gc(); Process p = new ProcessBuilder("true").start(); if (n[0] != 8 || p.waitFor() != 0) System.exit(1); } }' >A.java
javac A.java
java A
