"""One file per pass, and what is made of samples. Passes follow one another: no instrument disturbs another."""
