"""The Python interface: `import dgpbench` offers these names and imports them when they are first used."""
