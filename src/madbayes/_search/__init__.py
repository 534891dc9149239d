"""One search for all models: *squared error + price of the groups*.

A *space* knows the rows and what a division of them costs; a *price* says what groups cost. The
driver starts, descends and renews, whatever the space. `staircase` holds how many groups there are
at which price, and which number the data supports.
"""
